"""From a pipeline's declaration to the DAG that reads quarantined records again with today's parser."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Param, task

from dags.factory.frame import pipeline_dag
from dags.factory.held_dag import ask_decisions_task
from dags.factory.pages import replay_page
from dags.factory.tasks import ASKED, RETRIES, answer_of, gate_task, java_options_of, report_task, spark_task
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings, load_settings

_FIELDS = ("table", "rule", "fingerprint")


def replay_dag(pipeline: Pipeline, settings: Settings | None = None) -> DAG:
    """The DAG `<pipeline>_quarantine_replay`, started by its form."""
    settings = settings or load_settings()
    how: dict[str, Any] = {"priority": ASKED, "java_options": java_options_of("list_quarantine")}
    chosen = [f"--{name}={{{{ params.{name} or '' }}}}" for name in _FIELDS]
    with pipeline_dag(pipeline, settings, kind="quarantine_replay", page=replay_page(pipeline), params=_params(pipeline)) as dag:
        doc = "Reads the chosen records again: what keeps the contract now enters silver, once; the rest stays with today's reason."
        replay = spark_task(pipeline, settings, task_id="replay_quarantine", doc=doc, options=chosen, **how)
        gold = spark_task(pipeline, settings, task_id="build_gold", doc="Recomputes the windows of what was recovered.", **how)
        list_quarantine_task(pipeline) >> replay >> gate_task(pipeline, "silver") >> gold >> (gate_gold := gate_task(pipeline, "gold"))
        gate_gold >> ask_decisions_task(pipeline).as_teardown() >> report_task(pipeline).as_teardown()
    return dag


def list_quarantine_task(pipeline: Pipeline) -> Any:
    """Skips the rest when no record matches. XCom: count, java_options."""

    @task.short_circuit(task_id="list_quarantine", doc_md="Counts the records to read again, without a JVM.", **RETRIES)
    def list_quarantine(run_id: Any = None, params: Any = None) -> dict[str, Any]:
        said = answer_of(pipeline, "list_quarantine", run_id, [f"--{name}={params[name] or ''}" for name in _FIELDS])
        return said if said["count"] else {}

    return list_quarantine()


def _params(pipeline: Pipeline) -> dict[str, Param]:
    return {
        "table": Param(
            str(pipeline.silver_table), type="string", enum=[str(pipeline.silver_table)], title="Table",
            description="Whose quarantine. (What bronze keeps out is no text a record can have: mend the file, deliver it again.)",
        ),
        "rule": Param(
            "", type=["string", "null"], pattern=r"^([a-z][a-z0-9_]{0,63})?$", title="Rule",
            description="Only records that broke this rule.",
        ),
        "fingerprint": Param(
            "", type=["string", "null"], pattern=r"^([0-9a-fA-F]{1,64})?$", title="Group",
            description="Only this group: its fingerprint, as `assay quarantine list` shows it, or the beginning of it.",
        ),
    }  # fmt: skip
