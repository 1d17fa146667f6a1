"""The daily DAG: the day's work runs each day, gates hang beside it, and a red one is not covered by what runs after it."""

import contextlib

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import CronDataIntervalTimetable
from airflow.sdk.exceptions import AirflowSkipException

from dags.factory.tasks import DAILY, LIVE, SPARK_POOL
from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE
from tests.builders.task_instance import Instance

SPINE = ["look", "build_gold", "check_tables", "audit", "maintain"]


@pytest.fixture
def daily():
    from dags.factory.daily_dag import daily_dag

    return daily_dag(PIPELINE)


def test_the_days_work_is_one_line_with_the_gates_beside_it(daily):
    assert {task.task_id: task.upstream_task_ids for task in daily.tasks} == {
        "look": set(),
        "build_gold": {"look"},
        "gate_gold": {"build_gold"},
        "check_tables": {"build_gold"},
        "gate_tables": {"check_tables"},
        "audit": {"check_tables"},
        "maintain": {"audit"},
        "ask_decisions": {"gate_gold", "gate_tables", "maintain"},
        "report": {"ask_decisions"},
    }


def test_a_red_task_is_never_covered_by_a_green_one_after_it(daily):
    """Airflow judges a run by its last tasks: whatever runs in spite of a failure must not be the only one after what failed."""
    last = {"gate_gold", "gate_tables", "maintain"}
    assert all(set(daily.get_task(task_id).downstream_task_ids) == {"ask_decisions"} for task_id in last)
    for task_id in ("ask_decisions", "report"):
        assert daily.get_task(task_id).is_teardown and not daily.get_task(task_id).on_failure_fail_dagrun
    in_spite = {task.task_id for task in daily.tasks if task.trigger_rule == "all_done"}
    assert in_spite == {"check_tables", "audit"}
    for task_id in in_spite:
        for before in daily.get_task(task_id).upstream_task_ids:
            strict = [daily.get_task(after) for after in daily.get_task(before).downstream_task_ids if after not in in_spite]
            assert strict, f"a failure of {before} would be covered by {task_id}"
            assert {task.trigger_rule for task in strict} == {"all_success"}


@pytest.mark.parametrize(
    ("said", "runs"),
    [
        ({"has_tables": False, "has_gold_work": False}, set()),
        ({"has_tables": True, "has_gold_work": False}, {"check_tables", "audit", "maintain"}),
        ({"has_tables": True, "has_gold_work": True}, {"build_gold", "check_tables", "audit", "maintain"}),
    ],
)
def test_without_work_no_jvm_is_started_for_it(daily, monkeypatch, said, runs):
    started = set()
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda self, context: started.add(self.task_id))
    for task in daily.tasks:
        if isinstance(task, SparkSubmitOperator):
            task.render_template_fields({"run_id": "r", "ti": Instance(look=said)})
            with contextlib.suppress(AirflowSkipException):
                task.execute({})
    assert started == runs


def test_it_is_scheduled_once_a_day_and_lets_live_data_go_first(daily):
    assert daily.dag_id == "cloudtrail_daily"
    assert isinstance(daily.timetable, CronDataIntervalTimetable)
    assert daily.timetable.expression == PIPELINE.daily_cron
    assert (daily.catchup, daily.max_active_runs) == (False, 1)
    submits = [task for task in daily.tasks if isinstance(task, SparkSubmitOperator)]
    assert {task.task_id for task in submits} == {"build_gold", "check_tables", "audit", "maintain"}
    assert {(task.pool, task.priority_weight, task.weight_rule) for task in submits} == {(SPARK_POOL, DAILY, "absolute")}
    assert DAILY < LIVE


def test_every_task_says_what_it_does_and_tells_its_failure(daily):
    assert all(task.doc_md and task.on_failure_callback for task in daily.tasks)
    assert all(f"`{task.task_id}`" in daily.doc_md for task in daily.tasks if not task.is_teardown)
    assert all(f"`{table}`" in daily.doc_md for table in PIPELINE.gold_tables_of("daily"))
    assert {task.task_id for task in daily.tasks if task.retries == 0} == {"gate_gold", "gate_tables", "ask_decisions", "report"}
