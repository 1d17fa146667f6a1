"""The continuous DAG: a relay of drivers that Airflow keeps alive, paused until it is wanted and after a run that failed for good."""

import os
from datetime import timedelta

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from dags.factory.continuous_dag import STREAM_POOL, continuous_dag
from dags.factory.spark_job import said_fault
from spark_jobs.cli.airflow_home import airflow_environment
from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE
from spark_jobs.spec.errors import CrashLoop, LeaseHeld, StorageFault
from spark_jobs.spec.guarding import guardians
from spark_jobs.spec.settings import load_settings


@pytest.fixture
def continuous():
    return continuous_dag(PIPELINE)


def test_a_run_is_one_driver_then_the_questions_and_the_report(continuous):
    assert continuous.dag_id == "cloudtrail_continuous"
    assert {task.task_id: task.upstream_task_ids for task in continuous.tasks} == {
        "stream": set(),
        "ask_decisions": {"stream"},
        "report": {"stream"},
    }
    assert {task.task_id for task in continuous.tasks if task.is_teardown} == {"ask_decisions", "report"}
    assert not any(task.on_failure_fail_dagrun for task in continuous.tasks if task.is_teardown)
    assert all(task.doc_md and task.on_failure_callback for task in continuous.tasks)


def test_one_run_follows_the_other_once_somebody_has_switched_to_it(continuous):
    assert type(continuous.timetable).__name__ == "ContinuousTimetable"
    assert (continuous.max_active_runs, continuous.catchup, continuous.is_paused_upon_creation) == (1, False, True)


def test_a_driver_that_fails_is_restarted_soon_and_a_run_that_failed_for_good_pauses_the_dag(continuous):
    stream = continuous.get_task("stream")
    assert stream.retries >= 30, "the job says itself when it is a crash loop, and needs as many tries for that"
    assert stream.retry_delay <= timedelta(seconds=10) and stream.max_retry_delay <= timedelta(seconds=30)
    assert continuous.max_consecutive_failed_dag_runs == 1
    assert isinstance(said_fault("stream", CrashLoop.exit_code, "It failed 30 times in a row."), AirflowFailException)
    for healed in (LeaseHeld, StorageFault):
        assert not isinstance(said_fault("stream", healed.exit_code, "Later."), AirflowFailException)


def test_a_driver_has_a_bound_of_its_own_and_takes_no_slot_from_the_others(continuous):
    stream = continuous.get_task("stream")
    assert continuous.dagrun_timeout is None
    assert stream.pool == STREAM_POOL
    lifetime = load_settings().lifetime_min
    assert timedelta(minutes=lifetime) < stream.execution_timeout < timedelta(minutes=lifetime, hours=2)
    assert stream.application_args[-2:] == ["--lifetime-min", f"{lifetime:g}"]


def test_a_killed_supervisor_is_noticed_and_the_task_tried_again_within_two_minutes(continuous, tmp_path):
    noticed = int(airflow_environment(load_settings(home=tmp_path))["AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT"])
    look_every = 10
    assert noticed + look_every + continuous.get_task("stream").max_retry_delay.total_seconds() < 120


def test_its_driver_and_any_job_of_a_task_are_told_whom_they_must_not_outlive(continuous, monkeypatch):
    told = []

    def submit(operator, context):
        told.extend(guardians(operator.env_vars))
        raise AirflowException("enough")

    monkeypatch.setattr(SparkSubmitOperator, "execute", submit)
    with pytest.raises(AirflowException, match="enough"):
        continuous.get_task("stream").execute({})
    assert told == [os.getpid(), os.getppid()]


def test_its_page_says_how_to_switch_and_what_stops_it(continuous):
    page = continuous.doc_md
    for said in (
        "`cloudtrail_hourly`",
        "unpause",
        "a failed run pauses this",
        "assay stream stop",
        PIPELINE.stream_trigger,
        PIPELINE.owner,
    ):
        assert said in page
