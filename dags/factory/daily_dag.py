"""From a pipeline's declaration to its daily DAG: day windows, suites over whole tables, the audit, maintenance."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, task

from dags.factory.deadline import deadlines
from dags.factory.frame import pipeline_dag
from dags.factory.held_dag import ask_decisions_task
from dags.factory.pages import daily_page
from dags.factory.spark_job import SparkJob
from dags.factory.tasks import DAILY, RETRIES, answer_of, gate_task, java_options_of, report_task, said_by, spark_task
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings, load_settings


def daily_dag(pipeline: Pipeline, settings: Settings | None = None) -> DAG:
    """The DAG `<pipeline>_daily`.

    Both gates hang beside the line, so that a red one makes the run red and yet the tables are looked at and audited all the same: a
    bad day is when that is wanted most. Maintenance waits for the audit to be equal, so that it removes no evidence.
    """
    settings = settings or load_settings()
    with pipeline_dag(
        pipeline,
        settings,
        kind="daily",
        page=daily_page(pipeline),
        schedule=CronDataIntervalTimetable(pipeline.daily_cron, timezone="UTC"),
        deadline=deadlines(pipeline, pipeline.gold_tables_of("daily"), timedelta(days=1)),
    ) as dag:
        gold = _spark(
            pipeline,
            settings,
            "build_gold",
            if_="has_gold_work",
            job="build_daily_gold",
            doc="Brings the gold tables of days up to silver.",
        )
        tables = _spark(
            pipeline, settings, "check_tables", doc="The suites too dear for each batch: over whole tables.", trigger_rule="all_done"
        )
        audit = _spark(
            pipeline, settings, "audit", doc="Recomputes a sample of gold's cells from silver and compares.", trigger_rule="all_done"
        )
        maintain = _spark(pipeline, settings, "maintain", doc="Compacts closed partitions; removes versions that nobody needs any more.")
        look_task(pipeline) >> gold >> tables >> audit >> maintain
        ask = ask_decisions_task(pipeline).as_teardown()
        gold >> gate_task(pipeline, "gold", announces=pipeline.gold_tables_of("daily")) >> ask
        tables >> gate_task(pipeline, "tables") >> ask
        maintain >> ask >> report_task(pipeline).as_teardown()
    return dag


def look_task(pipeline: Pipeline) -> Any:
    """What the day has to do. XCom: has_tables, has_gold_work, java_options."""

    @task(
        task_id="look", doc_md="Says, without a JVM, whether there are tables, and whether gold's tables of days lack anything.", **RETRIES
    )
    def look(run_id: Any = None) -> dict[str, Any]:
        return answer_of(pipeline, "look", run_id)

    return look()


def _spark(pipeline: Pipeline, settings: Settings, task_id: str, *, if_: str = "has_tables", **how: Any) -> SparkJob:
    return spark_task(
        pipeline, settings, task_id=task_id, priority=DAILY, java_options=java_options_of("look"), runs_if=said_by("look", if_), **how
    )
