"""From a pipeline's declaration to the DAG that brings history in: plan, approval, chunk by chunk, verification."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException

from dags.factory.backfill_form import backfill_page, backfill_params, plan_options
from dags.factory.frame import pipeline_dag
from dags.factory.held_dag import ask_decisions_task
from dags.factory.spark_job import SparkJob
from dags.factory.tasks import HISTORY, RETRIES, answer_of, java_options_of, report_task, said_by, spark_arguments, spark_task
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings, load_settings

# Airflow makes at most this many tasks of one list (core.max_map_length); a chunk of 2,048 files makes that two million files.
MOST_CHUNKS = 1024


def backfill_dag(pipeline: Pipeline, settings: Settings | None = None) -> DAG:
    """The DAG `<pipeline>_backfill`, started by its form. Live data goes first: its tasks have the greater weight in the pool."""
    settings = settings or load_settings()
    with pipeline_dag(
        pipeline,
        settings,
        kind="backfill",
        page=backfill_page(pipeline),
        params=backfill_params(),
        max_active_runs=4,  # several plans may wait for approval; their chunks go through the pool one by one
        dagrun_timeout=None,  # it waits for a person, and then as long as the history is
    ) as dag:
        chunks = list_chunks_task(pipeline)
        how: dict[str, Any] = {"priority": HISTORY, "java_options": java_options_of("plan")}
        doc = "Hands one chunk to the pipeline's own writer when live files are caught up. Killed, it can be run again."
        run_chunk = SparkJob.partial(
            task_id="run_chunk",
            map_index_template="chunk {{ task.application_args[-1] }}",
            max_active_tis_per_dagrun=1,  # one writer per table: a second chunk would only wait for the first
            **spark_arguments(pipeline, settings, job="backfill_chunk", doc=doc, **how),
        ).expand(application_args=chunks)
        doc = "Compares gold with a batch over silver for the whole range; before and after, predicted and actual."
        of_plan = ["--backfill", said_by("plan", "backfill_id")]
        verify = spark_task(pipeline, settings, task_id="verify", job="backfill_verify", options=of_plan, doc=doc, **how)
        plan_task(pipeline) >> check_dry_run_task() >> approve_task(pipeline) >> chunks
        run_chunk >> verify >> ask_decisions_task(pipeline).as_teardown() >> report_task(pipeline).as_teardown()
    return dag


def plan_task(pipeline: Pipeline) -> Any:
    """XCom: what `backfill_plan` said: backfill_id, chunks, sentence, markdown, plan, java_options. Reads, and changes no table of data."""

    @task(
        task_id="plan",
        doc_md="Says what the backfill would read and change, and how long it would take: see *Quality report* on the run's page.",
        **RETRIES,
    )
    def plan(run_id: Any = None, params: Any = None, dag_run: Any = None) -> dict[str, Any]:
        options = plan_options(params)
        if user := getattr(dag_run, "triggering_user_name", None):
            options.append(f"--who={user}")
        said = answer_of(pipeline, "backfill_plan", run_id, options)
        for line in said["markdown"].splitlines():
            print(line)
        if said["chunks"] > MOST_CHUNKS:
            raise AirflowFailException(
                f"{said['chunks']:,} chunks are more than one run can hold ({MOST_CHUNKS:,}); take larger chunks or a shorter range."
            )
        return said

    return plan()


def check_dry_run_task() -> Any:
    """Skips the rest, green, in a dry run and when there is nothing to do."""

    @task.short_circuit(task_id="check_dry_run", doc_md="Ends a dry run after its plan, green.", retries=0)
    def check_dry_run(params: Any = None, ti: Any = None) -> bool:
        plan = ti.xcom_pull(task_ids="plan")
        if params["dry_run"]:
            print(f"A dry run, so nothing is done. To do it, start a run with 'Dry run' off. {plan['sentence']}")
            return False
        if not plan["chunks"]:
            print(plan["sentence"])
            return False
        return True

    return check_dry_run()


class ApprovePlan(ApprovalOperator):
    """Waits for a person unless the run's form says not to; a rejected backfill is cancelled under that person's name."""

    def __init__(self, *, pipeline: Pipeline, **how: Any) -> None:
        super().__init__(**how)
        self._pipeline = pipeline

    def execute(self, context: Any) -> Any:
        if context["params"]["approve"]:
            return super().execute(context)
        self.log.info("The run's form says not to wait for approval.")
        return None

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        if self.REJECT in event.get("chosen_options", ()):
            user = event["responded_by_user"] or {}
            who = str(user.get("name") or user.get("id") or "unknown")
            backfill = context["ti"].xcom_pull(task_ids="plan")["backfill_id"]
            said = answer_of(self._pipeline, "backfill_cancel", context["run_id"], ["--backfill", backfill, f"--who={who}"])
            self.log.info("%s", said.get("sentence"))
        return super().execute_complete(context, event)


def approve_task(pipeline: Pipeline) -> ApprovePlan:
    return ApprovePlan(
        pipeline=pipeline,
        task_id="approve",
        subject="{{ ti.xcom_pull(task_ids='plan')['sentence'] }}",
        body="{{ ti.xcom_pull(task_ids='plan')['markdown'] }}",
        doc_md="Waits for a person, in the page's *Required Actions*. Reject cancels the backfill.",
        **RETRIES,
    )


def list_chunks_task(pipeline: Pipeline) -> Any:
    """One command line for each chunk of the plan, in the order of the plan."""

    @task(task_id="list_chunks", doc_md="One task for each chunk of the plan.", retries=0)
    def list_chunks(run_id: Any = None, ti: Any = None) -> list[list[str]]:
        plan = ti.xcom_pull(task_ids="plan")
        common = ["--pipeline", pipeline.name, "--run-id", run_id, "--backfill", plan["backfill_id"], "--chunk"]
        return [[*common, str(number)] for number in range(plan["chunks"])]

    return list_chunks()
