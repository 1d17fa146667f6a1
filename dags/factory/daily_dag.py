"""From a pipeline's declaration to its daily DAG: day windows, suites over whole tables, the audit, maintenance."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, task

from dags.factory.frame import pipeline_dag
from dags.factory.held_dag import ask_decisions_task
from dags.factory.pages import daily_page
from dags.factory.spark_job import SparkJob
from dags.factory.tasks import DAILY, RETRIES, answer_of, gate_task, report_task, spark_task
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
    ) as dag:
        gold = _spark(pipeline, settings, "build_gold", job="build_daily_gold", doc="Brings the gold tables of days up to silver.")
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
    """Skips `build_gold` alone when the gold tables of days are up to date. XCom: the answer, and `java_options` under its own key."""

    @task.short_circuit(
        task_id="look",
        doc_md="Says, without a JVM, whether silver has what the gold tables of days do not name yet.",
        ignore_downstream_trigger_rules=False,
        **RETRIES,
    )
    def look(run_id: Any = None, ti: Any = None) -> dict[str, Any]:
        said = answer_of(pipeline, "look", run_id)
        ti.xcom_push(key="java_options", value=said["java_options"])
        return said if said["has_gold_work"] else {}

    return look()


def _spark(pipeline: Pipeline, settings: Settings, task_id: str, **how: Any) -> SparkJob:
    """A Spark task of the day. Its Java options have a key of their own, since the answer of a look that found nothing is empty."""
    options = "{{ ti.xcom_pull(task_ids='look', key='java_options') or '' }}"
    return spark_task(pipeline, settings, task_id=task_id, priority=DAILY, java_options=options, **how)
