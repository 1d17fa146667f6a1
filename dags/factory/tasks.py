"""The kinds of task a pipeline's DAG is made of: a command without a JVM, a Spark job, a gate, the report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

from airflow.sdk import Asset, AssetAlias, task
from airflow.sdk.exceptions import AirflowFailException

from dags.factory.commands import PROJECT, ask, job_command
from dags.factory.report_link import ReportLink
from dags.factory.spark_job import SparkJob, said_fault
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import Layer, TableId

SPARK_POOL = "spark"
# Who goes first when several wait for the one slot of the pool: live data, then what a person has just decided or asked for, then the
# day's work, then history.
LIVE, ASKED, DAILY, HISTORY = 40, 30, 20, 10
# A fault of the machine or the store is often over within minutes; two more tries are enough to tell it from a fault of ours.
RETRIES: dict[str, Any] = {
    "retries": 2,
    "retry_delay": timedelta(seconds=15),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=10),
}
NO_RETRIES: dict[str, Any] = {"retries": 0}  # the same rows get the same verdict


def java_options_of(task_id: str) -> str:
    """The template for the driver's Java options, which that task has said in its answer: they fit the size of the work."""
    return said_by(task_id, "java_options")


def said_by(task_id: str, name: str) -> str:
    """The template for one value of a task's answer; empty where the task gave none, so that what runs after its failure can."""
    return f"{{{{ (ti.xcom_pull(task_ids='{task_id}') or {{}}).get('{name}', '') }}}}"


def answer_of(pipeline: Pipeline, job: str, run_id: str, options: Sequence[str] = ()) -> dict[str, Any]:
    """What a job without a JVM said; raises its sentence, finally where the next try would find the same."""
    answer = ask(job_command(job, pipeline=pipeline.name, run_id=run_id, options=options))
    if answer.exit_code:
        raise said_fault(job, answer.exit_code, answer.sentence)
    return answer.said


def discover_task(pipeline: Pipeline) -> Any:
    """List the landing folder; when there is nothing to do, skip all but the report. XCom: what discover said."""

    @task.short_circuit(task_id="discover", doc_md="Lists what has landed and enters it in the file ledger, without a JVM.", **RETRIES)
    def discover(run_id: Any = None, params: Any = None, dag_run: Any = None) -> dict[str, Any]:
        options = ["--sweep"] if params and params.get("sweep") else []
        if dag_run is not None and dag_run.run_type == "backfill":
            options = _dates_of(dag_run)
        said = answer_of(pipeline, "discover", run_id, options)
        return said if said["has_work"] else {}

    return discover()


def _dates_of(dag_run: Any) -> list[str]:
    """Of a run of Airflow's own backfill: the date prefixes that its interval touches, and no others."""
    last_moment = dag_run.data_interval_end - timedelta(microseconds=1)
    return [f"--from={dag_run.data_interval_start:%Y-%m-%d}", f"--to={last_moment:%Y-%m-%d}"]


def spark_arguments(
    pipeline: Pipeline, settings: Settings, *, job: str, doc: str, priority: int = LIVE, java_options: str = java_options_of("discover")
) -> dict[str, Any]:
    """The arguments of a SparkJob that submits `spark_jobs/jobs/<job>.py`; `java_options` is a template."""
    return {
        "name": f"{pipeline.name}.{job}",
        "application": str(PROJECT / "spark_jobs" / "jobs" / f"{job}.py"),
        "conn_id": "spark_default",
        "conf": {
            # The system class path, not spark.jars: only from there can classes come out of the archive.
            "spark.driver.extraClassPath": f"{settings.home.absolute()}/jars/*",
            "spark.driver.extraJavaOptions": java_options,
        },
        "driver_memory": settings.driver_memory,
        "durable": False,  # a local driver dies with its task, so there is nothing to come back to
        "pool": SPARK_POOL,
        "priority_weight": priority,
        "weight_rule": "absolute",
        "doc_md": doc,
        **RETRIES,
    }


def spark_task(
    pipeline: Pipeline, settings: Settings, *, task_id: str, doc: str, job: str = "", options: Sequence[str] = (), **how: Any
) -> SparkJob:
    """One `spark-submit` of the job `job` (by default of the task's name). `how`: see spark_arguments; the rest is the operator's own."""
    ours = {name: how.pop(name) for name in ("priority", "java_options") if name in how}
    return SparkJob(
        task_id=task_id,
        application_args=["--pipeline", pipeline.name, "--run-id", "{{ run_id }}", *options],
        **(spark_arguments(pipeline, settings, job=job or task_id, doc=doc, **ours) | how),
    )


def gate_task(pipeline: Pipeline, layer: Layer | Literal["tables"], announces: Sequence[TableId] | None = None) -> Any:
    """The verdict on what a layer's job did in this run, as the colour of a task. `tables` are the suites over whole tables.

    pass: green, with an asset event for each table of `announces` (by default those of the layer that the hourly run writes).
    warn and hold: green without one, the sentence is in the log. stop: red, never retried.
    """
    if announces is None:
        announces = () if layer == "tables" else pipeline.tables(layer)
    assets = [table_asset(table) for table in announces]
    alias = AssetAlias(f"{pipeline.name}_{layer}_passed")

    @task(
        task_id=f"gate_{layer}",
        outlets=[alias] if assets else [],
        doc_md=f"Green when the {layer} suites passed; red when they stopped the batch.",
        **NO_RETRIES,
    )
    def gate(run_id: Any = None, outlet_events: Any = None) -> dict[str, Any]:
        answer = ask(job_command("gate", pipeline=pipeline.name, run_id=run_id, options=["--layer", layer]))
        if answer.exit_code:
            raise AirflowFailException(str(said_fault(f"gate_{layer}", answer.exit_code, answer.sentence)))
        if answer.said["outcome"] == "pass":
            for asset in assets:
                outlet_events[alias].add(asset, extra={"run_id": run_id})
        return answer.said

    return gate()


def report_task(pipeline: Pipeline) -> Any:
    """Writes the quality report after a failure too; as a teardown it never turns a failed run green. XCom: where the report is."""

    @task(task_id="report", doc_md="Writes the quality report of this run: a self-contained page, and JSON beside it.", **NO_RETRIES)
    def report(run_id: Any = None) -> dict[str, Any]:
        answer = ask(job_command("report", pipeline=pipeline.name, run_id=run_id))
        if answer.exit_code:
            raise AirflowFailException(str(said_fault("report", answer.exit_code, answer.sentence)))
        return answer.said

    made: Any = report()
    made.operator.operator_extra_links = (ReportLink(),)
    return made


def table_asset(table: TableId) -> Asset:
    """The Airflow asset of a table; its name is the table's."""
    return Asset(name=str(table), uri=f"assay://{table.layer}/{table.name}")
