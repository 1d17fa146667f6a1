"""The rules every DAG of the factory keeps, in both shapes."""

from datetime import timedelta
from itertools import pairwise

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import CronDataIntervalTimetable

from dags.factory.tasks import SPARK_POOL
from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE
from spark_jobs.spec.tables import LAYERS

ORDER = {
    "each": [
        "discover",
        "ingest_bronze",
        "gate_bronze",
        "build_silver",
        "gate_silver",
        "build_gold",
        "gate_gold",
        "ask_decisions",
        "report",
    ],
    "all": ["discover", "run_layers", "gate_bronze", "gate_silver", "gate_gold", "ask_decisions", "report"],
}


def test_tasks_follow_the_data_in_one_line(dag, shape):
    order = ORDER[shape]
    assert sorted(dag.task_ids) == sorted(order)
    for before, after in pairwise(order):
        assert dag.get_task(after).upstream_task_ids == {before}


def test_the_timetable_has_intervals_and_one_run_at_a_time(dag):
    assert isinstance(dag.timetable, CronDataIntervalTimetable)
    assert dag.timetable.expression == PIPELINE.hourly_cron
    assert dag.catchup is False
    assert dag.max_active_runs == 1


def test_name_owner_tags_and_page_come_from_the_declaration(dag):
    assert dag.dag_id == "cloudtrail_hourly"
    assert dag.owner == PIPELINE.owner
    assert set(PIPELINE.tags) <= set(dag.tags)
    for layer in LAYERS:
        for table in PIPELINE.tables(layer):
            assert f"`{table}`" in dag.doc_md
    assert all(task.doc_md for task in dag.tasks)


def test_tasks_with_machines_in_them_are_retried_with_growing_pauses_and_verdicts_are_not(dag):
    for task in dag.tasks:
        if task.task_id.startswith("gate_") or task.is_teardown:
            assert task.retries == 0, task.task_id
        else:
            assert task.retries == 2, task.task_id
            assert task.retry_exponential_backoff == 2.0, task.task_id
            assert task.retry_delay < task.max_retry_delay <= timedelta(minutes=10), task.task_id


def test_every_spark_task_is_the_providers_operator_in_the_one_pool(dag):
    submits = [task for task in dag.tasks if isinstance(task, SparkSubmitOperator)]
    assert {task.task_id for task in submits} == {"ingest_bronze", "build_silver", "build_gold", "run_layers"} & set(dag.task_ids)
    assert {task.pool for task in submits} == {SPARK_POOL}
    assert {task.pool for task in dag.tasks if task not in submits} == {"default_pool"}


def test_what_runs_after_a_failure_is_a_teardown_and_hides_none(dag):
    after = [task for task in dag.tasks if task.is_teardown]
    assert {task.task_id for task in after} == {"ask_decisions", "report"}
    assert not any(task.on_failure_fail_dagrun for task in after)
    assert not [task.task_id for task in dag.tasks if not task.is_teardown and task.trigger_rule != "all_success"]


def test_only_gates_announce_assets(dag):
    announcing = {task.task_id: [outlet.name for outlet in task.outlets] for task in dag.tasks if task.outlets}
    assert announcing == {f"gate_{layer}": [f"cloudtrail_{layer}_passed"] for layer in ("bronze", "silver", "gold")}


def test_a_failure_of_a_task_and_of_the_run_is_told(dag):
    assert dag.on_failure_callback is not None
    assert all(task.on_failure_callback for task in dag.tasks)


@pytest.mark.parametrize("wrong", ["both", ""])
def test_an_unknown_shape_is_refused_with_a_sentence(wrong):
    from spark_jobs.spec.errors import ConfigurationFault
    from spark_jobs.spec.settings import load_settings

    with pytest.raises(ConfigurationFault, match="ASSAY_SHAPE"):
        load_settings(shape=wrong)
