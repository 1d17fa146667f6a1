"""The DAG that reads quarantined records again: in one line up to gold, with nothing started when nothing matches."""

from itertools import pairwise

import pytest
from airflow.sdk.exceptions import ParamValidationError

from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE

PARAMS = {"table": "silver.cloudtrail_events", "rule": "missing_event_id", "fingerprint": None}


@pytest.fixture
def replay():
    from dags.factory.replay_dag import replay_dag

    return replay_dag(PIPELINE)


def test_what_is_recovered_goes_through_the_gates_up_to_gold(replay):
    order = ["list_quarantine", "replay_quarantine", "gate_silver", "build_gold", "gate_gold", "ask_decisions", "report"]
    assert sorted(replay.task_ids) == sorted(order)
    assert all(replay.get_task(after).upstream_task_ids == {before} for before, after in pairwise(order))
    assert {task.task_id for task in replay.tasks if task.is_teardown} == {"ask_decisions", "report"}
    assert type(replay.timetable).__name__ == "NullTimetable"
    assert replay.dag_id == "cloudtrail_quarantine_replay"


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("table", ["silver.cloudtrail_events"], ["bronze.cloudtrail_records", ""]),
        ("rule", ["", None, "missing_event_id"], ["Missing", "a b", "--who=x", "x'y"]),
        ("fingerprint", ["", None, "0a1b"], ["zz", "../x", "--rule=x"]),
    ],
)
def test_the_form_takes_names_only(replay, field, good, bad):
    param = replay.params.get_param(field)
    for value in good:
        assert param.resolve(value) == value
    for value in bad:
        with pytest.raises(ParamValidationError):
            param.resolve(value)


@pytest.mark.parametrize("count", [0, 7])
def test_without_a_record_that_matches_no_jvm_is_started(replay, answers, count):
    asked = answers({"count": count, "java_options": "-Xfoo", "sentence": "counted"})
    assert bool(replay.get_task("list_quarantine").python_callable(run_id="r", params=PARAMS)) is bool(count)
    assert asked == [["list_quarantine", "--table=silver.cloudtrail_events", "--rule=missing_event_id", "--fingerprint="]]
