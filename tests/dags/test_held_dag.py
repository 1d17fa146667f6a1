"""The DAG in which a person decides: what is offered, what is recorded, and how it ends when somebody was quicker."""

from itertools import pairwise

import pytest
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import AirflowSkipException, TaskAwaitingInput

from dags.factory.held_dag import AwaitDecision
from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE
from spark_jobs.spec.tables import LAYERS
from tests.builders.task_instance import Instance

PARAMS = {"table": "silver.cloudtrail_events", "batch": "v1-00000003"}
ANSWER = {"chosen_options": ["Release"], "params_input": {"note": "--odd note"}, "responded_by_user": {"id": "7", "name": "ann"}}


@pytest.fixture
def held():
    from dags.factory.held_dag import held_dag

    return held_dag(PIPELINE)


def test_one_line_from_the_question_to_the_report(held):
    order = ["show_batch", "await_decision", "decide", "run_layers", *(f"gate_{layer}" for layer in LAYERS), "ask_decisions", "report"]
    assert [task.task_id for task in held.topological_sort()] == order
    assert all(held.get_task(after).upstream_task_ids == {before} for before, after in pairwise(order))
    assert {task.task_id for task in held.tasks if task.is_teardown} == {"ask_decisions", "report"}


def test_it_waits_as_long_as_a_person_takes_and_beside_others(held):
    assert held.dagrun_timeout is None
    assert type(held.timetable).__name__ == "NullTimetable"
    assert held.max_active_runs > 1
    assert set(held.params) == set(PARAMS)


@pytest.mark.parametrize("wrong", ["v1'; drop", "../x", "", "-x"])
def test_the_form_takes_only_a_batch_id(held, wrong):
    from airflow.sdk.exceptions import ParamValidationError

    batch = held.params.get_param("batch")
    assert batch.resolve("v1-00000003.again") == "v1-00000003.again"
    with pytest.raises(ParamValidationError):
        batch.resolve(wrong)


@pytest.mark.parametrize(("open_", "shown"), [(["release", "reject"], ["Release", "Reject"]), (["release"], ["Release"])])
def test_a_person_is_offered_what_is_open_for_the_batch(held, monkeypatch, open_, shown):
    offered = []
    monkeypatch.setattr(HITLOperator, "execute", lambda self, context: offered.append(self.options))
    held.get_task("await_decision").execute({"ti": Instance(show_batch={"options": open_})})
    assert offered == [shown]


def test_decided_before_it_was_asked_it_skips_the_rest(held, answers):
    answers({"is_waiting": False, "sentence": "released, decided by ann."})
    assert not held.get_task("show_batch").python_callable(run_id="r", params=PARAMS)


def test_decided_by_command_while_it_waits_it_says_so_and_ends_clean(held, answers):
    asked = answers({"is_waiting": False, "sentence": "it is released, decided by ann."})
    with pytest.raises(AirflowSkipException, match=r"^it is released, decided by ann\.$"):
        held.get_task("await_decision").execute_complete({"run_id": "r", "params": PARAMS}, {"error": "late", "error_type": "timeout"})
    assert asked == [["waiting", "--table=silver.cloudtrail_events", "--batch=v1-00000003"]]


def test_still_undecided_it_goes_on_waiting_without_wiping_out_an_answer_given_meanwhile(held, answers, monkeypatch):
    answers({"is_waiting": True, "sentence": "held"})
    monkeypatch.setattr("airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **_: pytest.fail("asked anew"))
    with pytest.raises(TaskAwaitingInput) as parked:
        held.get_task("await_decision").execute_complete({"run_id": "r", "params": PARAMS}, {"error": "late", "error_type": "timeout"})
    assert (parked.value.method_name, parked.value.timeout) == ("execute_complete", held.get_task("await_decision").response_timeout)


def test_the_answer_is_recorded_with_the_user_and_the_note(held, answers):
    asked = answers({"is_recorded": True, "sentence": "recorded"})
    held.get_task("decide").python_callable(run_id="r", params=PARAMS, ti=Instance(await_decision=ANSWER))
    assert asked == [
        ["decide", "--table=silver.cloudtrail_events", "--batch=v1-00000003", "--decision", "release", "--who=ann", "--note=--odd note"]
    ]


def test_somebody_quicker_is_said_and_carried_out_all_the_same(held, answers):
    answers({"is_recorded": False, "sentence": "already decided by bob: rejected."})
    said = held.get_task("decide").python_callable(run_id="r", params=PARAMS, ti=Instance(await_decision=ANSWER))
    assert said["sentence"] == "already decided by bob: rejected."


def test_the_note_is_on_the_form(held):
    form = held.get_task("await_decision")
    assert isinstance(form, AwaitDecision)
    assert set(form.serialized_params) == {"note"}
