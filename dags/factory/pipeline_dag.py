"""From a pipeline's declaration to its hourly DAG, in one of two shapes that end in the same tables."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, Param

from dags.factory.deadline import deadlines
from dags.factory.frame import pipeline_dag
from dags.factory.held_dag import ask_decisions_task
from dags.factory.pages import dag_page
from dags.factory.tasks import discover_task, gate_task, report_task, spark_task
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings, load_settings


def hourly_dag(pipeline: Pipeline, settings: Settings | None = None) -> DAG:
    """The DAG `<pipeline>_hourly`.

    Shape `each`: a Spark job and a gate per layer, what a person wants to see. Shape `all`: one Spark job for the three layers,
    then the same gates; half the cost.
    """
    settings = settings or load_settings()
    with pipeline_dag(
        pipeline,
        settings,
        kind="hourly",
        page=dag_page(pipeline, settings),
        # A bare cron text would have an interval of zero length.
        schedule=CronDataIntervalTimetable(pipeline.hourly_cron, timezone="UTC"),
        deadline=deadlines(
            pipeline, [*pipeline.tables("bronze"), *pipeline.tables("silver"), *pipeline.tables("gold")], timedelta(hours=1)
        ),
        params={
            "sweep": Param(False, type="boolean", title="Sweep", description="List the whole landing folder, not its newest dates only.")
        },
    ) as dag:
        discovered = discover_task(pipeline)
        last = _each(pipeline, settings, discovered) if settings.shape == "each" else _all(pipeline, settings, discovered)
        last >> ask_decisions_task(pipeline).as_teardown() >> report_task(pipeline).as_teardown()
    return dag


def _each(pipeline: Pipeline, settings: Settings, discovered: Any) -> Any:
    ingest = spark_task(pipeline, settings, task_id="ingest_bronze", doc="Reads each listed file once; one row per record, exact text.")
    silver = spark_task(pipeline, settings, task_id="build_silver", doc="Types the records; keeps the first arrival of each event.")
    gold = spark_task(pipeline, settings, task_id="build_gold", doc="Recomputes the windows that new events touched.")
    gate_gold = gate_task(pipeline, "gold")
    discovered >> ingest >> gate_task(pipeline, "bronze") >> silver >> gate_task(pipeline, "silver") >> gold >> gate_gold
    return gate_gold


def _all(pipeline: Pipeline, settings: Settings, discovered: Any) -> Any:
    layers = spark_task(pipeline, settings, task_id="run_layers", doc="Bronze, silver and gold in one driver, with their gates in between.")
    gate_gold = gate_task(pipeline, "gold")
    discovered >> layers >> gate_task(pipeline, "bronze") >> gate_task(pipeline, "silver") >> gate_gold
    return gate_gold
