"""From a pipeline's declaration to the DAG in which a person decides about one held or stopped batch."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowSkipException, TaskAwaitingInput

from dags.factory.frame import pipeline_dag
from dags.factory.open_run import open_run
from dags.factory.pages import held_page
from dags.factory.tasks import ASKED, NO_RETRIES, RETRIES, answer_of, gate_task, java_options_of, report_task, spark_task
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings, load_settings
from spark_jobs.spec.tables import LAYERS

# How long a question stays when somebody has decided by command meanwhile. A look costs two seconds of one processor.
LOOK_EVERY = timedelta(minutes=10)
OPTIONS = ["Release", "Reject"]  # the words of `assay held`


def held_dag(pipeline: Pipeline, settings: Settings | None = None) -> DAG:
    """The DAG `<pipeline>_held`: one run for one batch, made by the run whose gate held or stopped it."""
    settings = settings or load_settings()
    days = [str(table) for table in pipeline.gold_tables_of("daily")]
    with pipeline_dag(
        pipeline,
        settings,
        kind="held",
        page=held_page(pipeline),
        max_active_runs=50,  # each waits for a person; what they do afterwards goes through the pool one by one
        dagrun_timeout=None,  # a person may be on holiday
        params={
            "table": Param(
                str(pipeline.silver_table), type="string", enum=[str(table) for table in pipeline.all_tables], title="Table"
            ),
            "batch": Param(
                type="string", pattern=r"^[A-Za-z0-9][A-Za-z0-9._:+-]{0,199}$", title="Batch",
                description="As `assay held` lists it, e.g. v1-00000003.",
            ),
        },
    ) as dag:  # fmt: skip
        layers = spark_task(
            pipeline, settings, task_id="run_layers", doc="Carries the decision out, once, and brings the later layers up to it.",
            # A gold table of days is brought up by its own job.
            job=f"{{{{ 'build_daily_gold' if params.table in {days} else 'run_layers' }}}}",
            priority=ASKED, java_options=java_options_of("show_batch"),
        )  # fmt: skip
        last: Any = show_batch_task(pipeline) >> await_decision_task(pipeline) >> decide_task(pipeline) >> layers
        for layer in LAYERS:
            last = last >> gate_task(pipeline, layer)
        last >> ask_decisions_task(pipeline).as_teardown() >> report_task(pipeline).as_teardown()
    return dag


def ask_decisions_task(pipeline: Pipeline) -> Any:
    """A run of `<pipeline>_held` for each batch that waits and has no open one. After a red gate too, and it turns no run green."""

    @task(task_id="ask_decisions", doc_md=f"Makes a run of `{pipeline.name}_held` for each batch that waits for a person.", **NO_RETRIES)
    def ask_decisions(run_id: Any = None, ti: Any = None) -> list[str]:
        made = []
        for batch in answer_of(pipeline, "waiting", run_id)["batches"]:
            name = f"held__{batch['table']}__{batch['batch_id']}"
            conf = {"table": batch["table"], "batch": batch["batch_id"]}
            made.append(open_run(ti, f"{pipeline.name}_held", name, conf=conf, note=f"{batch['state']}: {batch['sentence']}"))
        return [name for name in made if name]

    return ask_decisions()


def show_batch_task(pipeline: Pipeline) -> Any:
    """What a person needs to decide; skips the rest when it was decided before. XCom: what `waiting` said."""

    @task.short_circuit(task_id="show_batch", doc_md="Reads the verdict, what failed and a masked sample, without a JVM.", **RETRIES)
    def show_batch(run_id: Any = None, params: Any = None) -> dict[str, Any]:
        said = answer_of(pipeline, "waiting", run_id, _which(params))
        return said if said["is_waiting"] else {}

    return show_batch()


class AwaitDecision(HITLOperator):
    """Asks a person about one batch. Offers what `show_batch` said is open, and ends by itself when somebody decides by command."""

    def __init__(self, *, pipeline: Pipeline, **how: Any) -> None:
        super().__init__(**how)
        self._pipeline = pipeline

    def execute(self, context: Any) -> Any:
        self.options = [option.capitalize() for option in context["ti"].xcom_pull(task_ids="show_batch")["options"]]
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        if event.get("error_type") != "timeout":
            return super().execute_complete(context, event)
        said = answer_of(self._pipeline, "waiting", context["run_id"], _which(context["params"]))
        if not said["is_waiting"]:
            raise AirflowSkipException(said["sentence"])
        # Not asked anew: that would wipe out an answer given at this moment. Parking with an answer given goes on with it.
        raise TaskAwaitingInput(method_name="execute_complete", timeout=self.response_timeout)


def await_decision_task(pipeline: Pipeline) -> AwaitDecision:
    """XCom: chosen_options, params_input, responded_by_user, responded_at."""
    return AwaitDecision(
        pipeline=pipeline,
        task_id="await_decision",
        subject="{{ ti.xcom_pull(task_ids='show_batch')['subject'] }}",
        body="{{ ti.xcom_pull(task_ids='show_batch')['markdown'] }}",
        options=OPTIONS,
        params={
            "note": Param(
                "", type="string", maxLength=1000, title="Note", description="Why; kept with the decision and your name.", source="task"
            )
        },
        response_timeout=LOOK_EVERY,
        doc_md="Waits for a person, in the page's *Required Actions*. A decision by `assay held` ends it too.",
        **RETRIES,
    )


def decide_task(pipeline: Pipeline) -> Any:
    """Records the answer through the same code as `assay held`. Somebody quicker by command is said, and carried out all the same."""

    @task(task_id="decide", doc_md="Records who decided what, when and why in `_ops.decisions`.", **RETRIES)
    def decide(run_id: Any = None, params: Any = None, ti: Any = None) -> dict[str, Any]:
        given = ti.xcom_pull(task_ids="await_decision")
        user = given["responded_by_user"] or {}
        note = str((given["params_input"] or {}).get("note") or "")
        who = str(user.get("name") or user.get("id") or "unknown")
        options = ["--decision", given["chosen_options"][0].lower(), f"--who={who}"]
        return answer_of(pipeline, "decide", run_id, [*_which(params), *options, f"--note={note}"])

    return decide()


def _which(params: Any) -> list[str]:
    return [f"--table={params['table']}", f"--batch={params['batch']}"]
