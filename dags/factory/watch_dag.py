"""From a pipeline's declaration to the DAG that looks every five minutes whether something must be told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, task

from dags.factory.frame import pipeline_dag
from dags.factory.pages import watch_page
from dags.factory.tasks import NO_RETRIES, answer_of
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings, load_settings

EVERY = "*/5 * * * *"  # a look costs a second of one core, and its task a few; what fails in Airflow is told at once all the same


def watch_dag(pipeline: Pipeline, settings: Settings | None = None) -> DAG:
    """The DAG `<pipeline>_watch`: one task without a JVM, in no pool of Spark's.

    Its own failure makes no look, which would fail the same; the next look tells it.
    """
    settings = settings or load_settings()
    with pipeline_dag(
        pipeline,
        settings,
        kind="watch",
        page=watch_page(pipeline),
        tells=False,
        schedule=CronDataIntervalTimetable(EVERY, timezone="UTC"),
        dagrun_timeout=timedelta(minutes=4),  # before the next one is due
    ) as dag:
        watch_task(pipeline)
    return dag


def watch_task(pipeline: Pipeline) -> Any:
    """XCom: how many incidents are new, over and firing, in a sentence."""

    @task(task_id="watch", doc_md="Judges each alert rule, and tells what has changed by mail and webhook.", **NO_RETRIES)
    def watch(run_id: Any = None) -> str:
        return str(answer_of(pipeline, "watch", run_id)["sentence"])

    return watch()
