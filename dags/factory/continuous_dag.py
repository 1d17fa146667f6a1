"""From a pipeline's declaration to its continuous DAG: a relay of drivers, each of a bounded lifetime, kept alive by Airflow's retries."""

from __future__ import annotations

import shlex
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from dags.factory.frame import pipeline_dag
from dags.factory.held_dag import ask_decisions_task
from dags.factory.pages import continuous_page
from dags.factory.spark_job import SparkJob
from dags.factory.tasks import report_task, spark_task
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings, load_settings

# Its slot is taken for good, so not of the pool that hourly, daily and backfill drivers go through one by one.
STREAM_POOL = "stream"
# A driver that fails is started again within seconds at first, within half a minute at last: Airflow counts all failures of a run, also
# those with hours in between. The job itself counts those without one batch in between, and says at the thirtieth that it is a crash loop:
# that is final, so there must be as many tries.
RESTARTS: dict[str, Any] = {
    "retries": 30,
    "retry_delay": timedelta(seconds=5),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(seconds=30),
}
# To take turns with an hourly run or a chunk of history before its own lifetime begins; one that is silent for longer hangs.
WAITING = timedelta(minutes=60)


def continuous_dag(pipeline: Pipeline, settings: Settings | None = None) -> DAG:
    """The DAG `<pipeline>_continuous`, paused until somebody switches to it.

    One run is one leg of the relay: a driver with all three layers, which ends after its lifetime, then the questions to a person and the
    report. A run that failed for good pauses the DAG: the next one would find the same, and would be made at once.
    """
    settings = settings or load_settings()
    with pipeline_dag(
        pipeline,
        settings,
        kind="continuous",
        page=continuous_page(pipeline, settings),
        schedule="@continuous",
        dagrun_timeout=None,  # each driver has a bound of its own
        is_paused_upon_creation=True,
        max_consecutive_failed_dag_runs=1,
    ) as dag:
        # Beside each other: the next driver starts when both are done.
        stream_task(pipeline, settings) >> [ask_decisions_task(pipeline).as_teardown(), report_task(pipeline).as_teardown()]
    return dag


def stream_task(pipeline: Pipeline, settings: Settings) -> SparkJob:
    """The driver; no task comes before it, since each would be time in which nobody reads what lands."""
    return spark_task(
        pipeline,
        settings,
        task_id="stream",
        doc=f"All three layers in one driver, for {settings.lifetime_min:g} minutes. It is restarted when it fails.",
        options=["--lifetime-min", f"{settings.lifetime_min:g}"],
        java_options=java_options(settings),
        pool=STREAM_POOL,
        execution_timeout=timedelta(minutes=settings.lifetime_min) + WAITING,
        **RESTARTS,
    )


def java_options(settings: Settings) -> str:
    """As for much input, since the driver lives long enough for the optimising compiler; without an archive Java starts without it."""
    archive = shlex.quote(f"-XX:SharedArchiveFile={settings.home.absolute()}/java/driver.jsa")
    return f"{archive} -Xshare:auto -XX:+UseParallelGC"
