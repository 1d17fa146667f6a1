"""The DAG that brings history in: its form, what each answer leads to, and that live data goes before it."""

from itertools import pairwise

import pytest
from airflow.sdk.exceptions import AirflowFailException, ParamValidationError

from dags.factory.backfill_dag import MOST_CHUNKS, ApprovePlan
from dags.factory.backfill_form import plan_options
from dags.factory.tasks import LIVE, SPARK_POOL
from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE
from tests.builders.task_instance import Instance

FORM = {
    "what": "load", "from": "2024-05-01", "to": "2024-05-31", "accounts": [], "regions": None, "source": "", "chunk_files": 2048,
    "newest_first": False, "dry_run": True, "approve": True,
}  # fmt: skip
PLAN = {"backfill_id": "bf_0123456789ab", "chunks": 3, "sentence": "3 chunks", "markdown": "# plan", "java_options": "-Xfoo"}


@pytest.fixture
def backfill():
    from dags.factory.backfill_dag import backfill_dag

    return backfill_dag(PIPELINE)


def test_plan_approval_chunks_and_proof_are_one_line(backfill):
    order = ["plan", "check_dry_run", "approve", "list_chunks", "run_chunk", "verify", "ask_decisions", "report"]
    assert sorted(backfill.task_ids) == sorted(order)
    assert all(backfill.get_task(after).upstream_task_ids == {before} for before, after in pairwise(order))
    assert {task.task_id for task in backfill.tasks if task.is_teardown} == {"ask_decisions", "report"}


def test_history_waits_for_live_data_and_goes_chunk_by_chunk(backfill):
    from dags.factory.pipeline_dag import hourly_dag

    chunk, verify = backfill.get_task("run_chunk"), backfill.get_task("verify")
    live = [task for task in hourly_dag(PIPELINE).tasks if task.pool == SPARK_POOL]
    assert {task.priority_weight for task in live} == {LIVE}
    for task in (chunk, verify):
        assert (task.pool, task.weight_rule) == (SPARK_POOL, "absolute")
        assert task.priority_weight < LIVE
    assert chunk.max_active_tis_per_dagrun == 1
    assert backfill.dagrun_timeout is None
    assert type(backfill.timetable).__name__ == "NullTimetable"


def test_left_as_it_is_the_form_only_plans_and_asks(backfill):
    assert (backfill.params["dry_run"], backfill.params["approve"]) == (True, True)
    assert all(param.schema["title"] in backfill.doc_md for param in map(backfill.params.get_param, backfill.params))


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("what", ["load", "replay", "recompute"], ["delete", ""]),
        ("from", ["2024-05-01"], ["yesterday", "2024-13-01", None]),
        ("accounts", [[], None, ["123456789012"]], [["12345"], ["--source=/"], "123456789012"]),
        ("regions", [[], None, ["eu-west-1", "us-gov-east-1"]], [["Europe"], ["eu-west-1,--x"]]),
        ("source", ["", None, "s3://bucket/prefix", "/data/history"], ["--run-id=x", "a\nb"]),
        ("chunk_files", [1, 100_000], [0, 100_001, "x"]),
    ],
)
def test_the_form_refuses_what_the_command_line_would(backfill, field, good, bad):
    param = backfill.params.get_param(field)
    for value in good:
        assert param.resolve(value) == value
    for value in bad:
        with pytest.raises(ParamValidationError):
            param.resolve(value)


def test_the_form_becomes_the_command_line_of_the_plan():
    assert plan_options(FORM) == ["--what", "load", "--from=2024-05-01", "--to=2024-05-31", "--chunk-files", "2048"]
    filled = FORM | {"accounts": ["1" * 12, "2" * 12], "regions": ["eu-west-1"], "source": "s3://b/p", "newest_first": True}
    assert plan_options(filled)[6:] == [f"--accounts={'1' * 12},{'2' * 12}", "--regions=eu-west-1", "--source=s3://b/p", "--newest-first"]


def test_the_plan_is_in_the_log_and_names_who_asked(backfill, answers, capsys):
    asked = answers(PLAN)
    run = type("DagRun", (), {"triggering_user_name": "ann"})
    assert backfill.get_task("plan").python_callable(run_id="r", params=FORM, dag_run=run) == PLAN
    assert asked[0][0] == "backfill_plan" and asked[0][-1] == "--who=ann"
    assert "# plan" in capsys.readouterr().out


def test_more_chunks_than_airflow_can_hold_are_refused_with_a_sentence(backfill, answers):
    answers(PLAN | {"chunks": MOST_CHUNKS + 1})
    with pytest.raises(AirflowFailException, match="larger chunks"):
        backfill.get_task("plan").python_callable(run_id="r", params=FORM, dag_run=None)


@pytest.mark.parametrize(
    ("dry_run", "chunks", "goes_on", "said"), [(True, 3, False, "A dry run"), (False, 0, False, "3 chunks"), (False, 3, True, "")]
)
def test_a_dry_run_and_an_empty_plan_end_green_after_a_sentence(backfill, capsys, dry_run, chunks, goes_on, said):
    found = backfill.get_task("check_dry_run").python_callable(
        params=FORM | {"dry_run": dry_run}, ti=Instance(plan=PLAN | {"chunks": chunks})
    )
    assert found is goes_on
    assert capsys.readouterr().out.startswith(said)


def test_each_chunk_is_a_task_with_its_own_command_line(backfill):
    listed = backfill.get_task("list_chunks").python_callable(run_id="r", ti=Instance(plan=PLAN))
    common = ["--pipeline", "cloudtrail", "--run-id", "r", "--backfill", PLAN["backfill_id"], "--chunk"]
    assert listed == [[*common, "0"], [*common, "1"], [*common, "2"]]


def test_without_waiting_for_approval_nobody_is_asked(backfill):
    assert backfill.get_task("approve").execute({"params": FORM | {"approve": False}}) is None


def test_a_rejected_plan_is_cancelled_under_the_name_of_who_rejected_it(backfill, answers, monkeypatch):
    asked = answers({"sentence": "cancelled"})
    monkeypatch.setattr("airflow.providers.standard.operators.hitl.ApprovalOperator.execute_complete", lambda *_: "skips what follows")
    context = {"run_id": "r", "ti": Instance(plan=PLAN)}
    approve = backfill.get_task("approve")
    assert isinstance(approve, ApprovePlan)
    approve.execute_complete(context, {"chosen_options": ["Approve"], "responded_by_user": {"id": "1", "name": "ann"}})
    assert asked == []
    approve.execute_complete(context, {"chosen_options": ["Reject"], "responded_by_user": {"id": "1", "name": "ann"}})
    assert asked == [["backfill_cancel", "--backfill", PLAN["backfill_id"], "--who=ann"]]
