"""Failures, retries and missed deadlines of Airflow on their way to the watch: recorded by callbacks, told at once, over with a success."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from airflow.sdk import CronDataIntervalTimetable
from airflow.triggers.callback import CallbackTrigger

from dags.factory import notifier
from dags.factory.daily_dag import daily_dag
from dags.factory.deadline import deadlines
from dags.factory.failure import SayFailure
from dags.factory.notifier import TellNow
from dags.factory.pipeline_dag import hourly_dag
from dags.factory.watch_dag import watch_dag
from spark_jobs.jobs.watch_failures import late_runs, task_marks
from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE
from spark_jobs.spec.alerts import DeadlineMissed, TaskFailed
from tests.builders.ops_rows import environment, small_settings
from tests.builders.receivers import Mailbox, mail_server

DAG, RUN = "cloudtrail_hourly", "manual__1"
HOUR = timedelta(hours=1)


@pytest.fixture
def settings(tmp_path):
    return small_settings(tmp_path)


def of_task(task_id="build_silver", try_number=1, exception=None):
    return {"ti": SimpleNamespace(dag_id=DAG, run_id=RUN, task_id=task_id, try_number=try_number), "exception": exception}


def of_run(run_id=RUN):
    return {"dag_run": SimpleNamespace(dag_id=DAG, run_id=run_id), "reason": "timed_out"}


def signs(settings):
    now = datetime.now(UTC)
    return TaskFailed().signs(task_marks(settings, PIPELINE, since=now - HOUR), now)


def test_a_try_that_a_retry_healed_is_told_with_its_end(settings):
    say = SayFailure(settings.home)
    say.of_success(of_task())  # at once: nothing to say
    assert say.records(RUN) == []
    say.of_retry(of_task(exception=OSError("the store is away\nand more")))
    (failed,) = signs(settings)
    assert failed.subject == f"{DAG}.build_silver" and "the store is away (tried again)" in failed.sentence and failed.ended_at is None
    say.of_success(of_task(try_number=2))
    (healed,) = signs(settings)
    assert healed.ended_at is not None and healed.occurrence == failed.occurrence


def test_a_failed_task_and_its_run_are_one_failure_until_a_later_run_succeeds(settings):
    say = SayFailure(settings.home)
    say.of_green_run(of_run("before"))  # nothing has failed: nothing to say
    assert say.records("before") == []
    say.of_task(of_task(exception=ValueError("no")))
    say.of_run(of_run())
    assert [sign.subject for sign in signs(settings)] == [f"{DAG}.build_silver"]
    say.of_green_run(of_run("next"))
    assert [sign.ended_at is not None for sign in signs(settings)] == [True]
    say.of_green_run(of_run("the one after"))
    assert say.records("the one after") == []
    say.of_run(of_run("r9"))  # failed by itself: its time was over
    assert [sign.subject for sign in signs(settings) if sign.ended_at is None] == [DAG]


def test_a_record_cut_off_by_a_kill_or_of_another_program_hides_none(settings):
    say = SayFailure(settings.home)
    say.of_task(of_task(exception=ValueError("no")))
    with say.file.open("a") as lines:
        lines.write('[1]\n{"dag_id": 5}\n{"at": "2026", "da')
    assert len(signs(settings)) == 1 and len(say.records(RUN)) == 1


def test_every_dag_records_and_tells_and_the_watch_does_not_call_itself():
    for dag, tells in ((hourly_dag(PIPELINE), True), (daily_dag(PIPELINE), True), (watch_dag(PIPELINE), False)):
        groups = [dag.on_failure_callback, dag.on_success_callback]
        groups += [found for task in dag.tasks for found in (task.on_failure_callback, task.on_retry_callback)]
        assert all(isinstance(group, list) and any(isinstance(one, TellNow) for one in group) == tells for group in groups), dag.dag_id
        assert all(callable(one) for group in groups for one in group)


def test_the_watch_is_one_task_without_a_pool_of_spark_and_its_page_has_every_rule():
    dag = watch_dag(PIPELINE)
    assert dag.task_ids == ["watch"] and dag.get_task("watch").pool == "default_pool" and dag.get_task("watch").retries == 0
    assert isinstance(dag.timetable, CronDataIntervalTimetable) and dag.dagrun_timeout < timedelta(minutes=5)
    assert all(f"`{rule.name}`" in dag.doc_md and rule.threshold in dag.doc_md for rule in PIPELINE.alerts)


@pytest.mark.parametrize("answers", [True, False])
def test_a_failure_is_told_at_once_and_no_callback_fails_where_it_cannot_be(settings, monkeypatch, answers):
    """The whole way: the callback, the watch in a process of its own, a real mail server."""
    mailbox = Mailbox()
    SayFailure(settings.home).of_task(of_task(exception=ValueError("no")))
    with mail_server(mailbox) as port:
        configured = {
            "ASSAY_SMTP_HOST": "127.0.0.1",
            "ASSAY_SMTP_PORT": str(port),
            "ASSAY_SMTP_STARTTLS": "false",
            "ASSAY_ALERT_TO": "a@b.org",
        }
        for name, value in (environment(settings) | configured).items():
            monkeypatch.setenv(name, value)
        if not answers:
            monkeypatch.setattr(notifier, "PATIENCE_S", 0.01)
        TellNow("cloudtrail")(of_task() | of_run() | {"dag": object()})  # of a run of `airflow dags test` the DAG renders no template
    told = [mail["Subject"].strip() for mail in mailbox.take()]
    assert told == (["[assay cloudtrail] CRITICAL: task failed, cloudtrail_hourly.build_silver"] if answers else [])


def test_each_freshness_target_is_a_deadline_of_the_run_that_brings_its_tables_up():
    (hourly,) = hourly_dag(PIPELINE).deadline
    (daily,) = daily_dag(PIPELINE).deadline
    assert (hourly.interval, daily.interval) == (HOUR, 4 * HOUR)  # what is left of 2 h after an hour's wait, of 28 h after a day's
    assert hourly.callback.kwargs["tables"] == [str(table) for layer in ("bronze", "silver", "gold") for table in PIPELINE.tables(layer)]
    assert [one.interval for one in deadlines(PIPELINE, PIPELINE.all_tables, HOUR)] == [HOUR, 27 * HOUR]


def test_a_run_of_airflow_dags_test_has_no_deadline(monkeypatch):
    """Airflow would look for the deadline's row when such a run succeeds, has made none, and fails the run."""
    monkeypatch.setattr("sys.argv", ["/venv/bin/airflow", "dags", "test", DAG])
    assert not hourly_dag(PIPELINE).deadline and not daily_dag(PIPELINE).deadline


def test_a_missed_deadline_of_airflows_own_is_told_and_over_when_the_run_has_ended(settings, monkeypatch, tmp_path):
    """Airflow makes the deadline with the run, finds it missed, and hands the triggerer what this calls; only the clock is ours."""
    for name, value in environment(settings).items():
        monkeypatch.setenv(name, value)
    path, kwargs = missed_in_airflow(tmp_path)
    assert path == "dags.factory.deadline.tell_deadline"
    said = asyncio.run(in_the_triggerer(path, kwargs))
    assert "silver.cloudtrail_events" in said and "should be fresh within 2 h" in said
    now = datetime.now(UTC)
    (late,) = late_runs(settings, PIPELINE, since=now - HOUR)
    assert (late.dag_id, late.run_id, late.ended) == (DAG, RUN, None)
    SayFailure(settings.home).of_green_run(of_run())
    SayFailure(settings.home).of_deadline(DAG, "failed", "Not done.")  # the deadline of a run that has failed stands until another succeeds
    signs = DeadlineMissed().signs(late_runs(settings, PIPELINE, since=now - HOUR), now)
    assert [(sign.occurrence, sign.ended_at is None) for sign in signs] == [(RUN, False), ("failed", True)]
    SayFailure(settings.home).of_green_run(of_run("next"))
    assert all(one.ended for one in late_runs(settings, PIPELINE, since=now - HOUR))


AIRFLOW = """
import json
from datetime import datetime, timedelta, timezone
from airflow.utils.db import initdb
initdb()
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.models.deadline import Deadline
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.dagbag import DBDagBag
from airflow.serialization.serialized_objects import LazyDeserializedDAG
from airflow.utils.session import create_session
from airflow.utils.types import DagRunType, DagRunTriggeredByType
from airflow.utils.state import DagRunState
from sqlalchemy import select
from dags.cloudtrail_hourly import dag
from airflow.serialization.definitions.dag import SerializedDAG

DagBundlesManager().sync_bundles_to_db()
with create_session() as session:
    SerializedDAG.bulk_write_to_db("dags-folder", None, [dag], session=session)
    session.flush()
    SerializedDagModel.write_dag(LazyDeserializedDAG.from_dag(dag), bundle_name="dags-folder", session=session)
with create_session() as session:
    known = DBDagBag().get_latest_version_of_dag("cloudtrail_hourly", session=session)
    now = datetime.now(timezone.utc)
    known.create_dagrun(
        run_id="manual__1", run_type=DagRunType.MANUAL, logical_date=now, run_after=now, state=DagRunState.QUEUED,
        triggered_by=DagRunTriggeredByType.TEST, session=session,
    )
with create_session() as session:
    (deadline,) = session.scalars(select(Deadline)).all()
    print("due in", deadline.deadline_time - now)
    deadline.handle_miss(session)
    data = deadline.callback.data
    print(json.dumps({"path": data["path"], "kwargs": data["kwargs"]}, default=str))
"""


async def in_the_triggerer(path, kwargs):
    """What the callback answers to Airflow's own trigger."""
    events = [event.payload async for event in CallbackTrigger(path, kwargs).run()]
    assert events[-1]["state"] == "success", events
    return events[-1]["body"]


def missed_in_airflow(home):
    """The callback's path and arguments, as Airflow hands them to the triggerer; in a process of its own, with a database of its own."""
    import os
    import subprocess
    import sys

    from tests.builders.stack import PROJECT

    env = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    env |= {
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    done = subprocess.run([sys.executable, "-c", AIRFLOW], cwd=PROJECT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "due in 1:00:0" in done.stdout or "due in 0:59:5" in done.stdout, done.stdout
    handed = json.loads(done.stdout.splitlines()[-1])
    return handed["path"], handed["kwargs"]
