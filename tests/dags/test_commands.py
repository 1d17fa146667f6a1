"""The rendered command of every task is kept in golden/, so that a change of job, table, memory or option is seen in review.

After a change that is meant: `UPDATE_GOLDEN=1 pytest tests/dags/test_commands.py`, and read the difference.
"""

import os
import shlex
from pathlib import Path
from unittest.mock import patch

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from dags.factory.commands import PROJECT, job_command
from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE
from spark_jobs.spec.settings import load_settings

GOLDEN = Path(__file__).parent / "golden"
RUN_ID = "scheduled__2023-07-10T12:10:00+00:00"


class _DiscoverSaid:
    """Stands where the task instance is in a template's context."""

    @staticmethod
    def xcom_pull(task_ids):
        options = "-XX:SharedArchiveFile=/state/java/driver.jsa -Xshare:auto -XX:+UseSerialGC"
        assert task_ids in ("discover", "look", "show_batch", "plan", "list_quarantine")
        return {"java_options": options, "has_tables": True, "has_gold_work": True, "backfill_id": "bf_0123456789ab"}


def rendered(task: SparkSubmitOperator, params: dict) -> str:
    task.render_template_fields({"run_id": RUN_ID, "ti": _DiscoverSaid(), "params": params})
    connection = '{"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}'
    with patch.dict(os.environ, {"AIRFLOW_CONN_SPARK_DEFAULT": connection}):
        command = task._get_hook()._build_spark_submit_command(task.application)
    text = command[0]
    for part in command[1:]:
        is_value = not part.startswith("--") and not part.startswith(str(PROJECT / "spark_jobs"))
        text += (" " if is_value else " \\\n  ") + shlex.quote(part)
    home = str(load_settings().home.absolute())
    return text.replace(home, "<home>").replace(str(PROJECT), "<project>") + "\n"


def of_one(task):
    """A mapped task as its one instance for the arguments of chunk 7."""
    if not task.is_mapped:
        return task
    arguments = ["--pipeline", "cloudtrail", "--run-id", RUN_ID, "--backfill", "bf_0123456789ab", "--chunk", "7"]
    return task.unmap({"application_args": arguments})


def compare(dag, folder, **params):
    """Each Spark task of the DAG is submitted as its file in the folder says."""
    found = {task.task_id: rendered(of_one(task), params) for task in dag.tasks if issubclass(task.operator_class, SparkSubmitOperator)}
    assert found
    for name, command in found.items():
        golden = folder / f"{name}.txt"
        if os.environ.get("UPDATE_GOLDEN"):
            folder.mkdir(exist_ok=True)
            golden.write_text(command)
        assert command == golden.read_text(), f"{name} of {dag.dag_id} is submitted in another way than {golden}"


def test_spark_submit_commands_are_the_reviewed_ones(dag):
    compare(dag, GOLDEN)


def test_the_days_spark_submit_commands_are_the_reviewed_ones():
    from dags.factory.daily_dag import daily_dag

    compare(daily_dag(PIPELINE), GOLDEN / "daily")


def test_the_continuous_driver_is_submitted_as_reviewed():
    from dags.factory.continuous_dag import continuous_dag

    compare(continuous_dag(PIPELINE), GOLDEN / "continuous")


def test_a_backfills_spark_submit_commands_are_the_reviewed_ones():
    from dags.factory.backfill_dag import backfill_dag

    compare(backfill_dag(PIPELINE), GOLDEN / "backfill")


def test_a_replays_spark_submit_commands_are_the_reviewed_ones():
    from dags.factory.replay_dag import replay_dag

    compare(replay_dag(PIPELINE), GOLDEN / "quarantine_replay", table="silver.cloudtrail_events", rule="missing_event_id", fingerprint=None)


@pytest.mark.parametrize("table", [PIPELINE.silver_table, *PIPELINE.gold_tables_of("daily")[:1]], ids=lambda table: table.layer)
def test_a_decision_is_carried_out_by_the_reviewed_command(table):
    from dags.factory.held_dag import held_dag

    compare(held_dag(PIPELINE), GOLDEN / f"held_{table.layer}", table=str(table))


def test_every_command_names_a_job_that_exists():
    from dags.factory.backfill_dag import backfill_dag
    from dags.factory.daily_dag import daily_dag
    from dags.factory.replay_dag import replay_dag

    jobs = {"discover", "gate", "report", "waiting", "decide", "look", "backfill_plan", "backfill_cancel", "list_quarantine"}
    for dag in (daily_dag(PIPELINE), backfill_dag(PIPELINE), replay_dag(PIPELINE)):
        submits = [of_one(task) for task in dag.tasks if issubclass(task.operator_class, SparkSubmitOperator)]
        jobs |= {Path(task.application).stem for task in submits}
    missing = {job for job in jobs if not (PROJECT / "spark_jobs" / "jobs" / f"{job}.py").is_file()}
    assert missing == set()


def test_jobs_without_a_jvm_run_in_the_interpreter_that_assay_python_names(monkeypatch):
    monkeypatch.setenv("ASSAY_PYTHON", "/jobs/bin/python")
    command = job_command("gate", pipeline="cloudtrail", run_id=RUN_ID, options=["--layer", "gold"])
    assert command == ["/jobs/bin/python", "-m", "spark_jobs.jobs.gate", "--pipeline", "cloudtrail", "--run-id", RUN_ID, "--layer", "gold"]
