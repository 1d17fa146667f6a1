"""What each answer of a command makes of its task: green, green with an asset event, red for good, red and tried again.

The commands are real processes: small programs that answer as the jobs do.
"""

import sys
from collections import defaultdict
from datetime import UTC, datetime

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from dags.factory import tasks
from dags.factory.commands import CommandFailed, ask, last_answer
from dags.factory.failure import SayFailure
from dags.factory.spark_job import SparkJob, said_fault


class _Accessor:
    def __init__(self):
        self.added = []

    def add(self, asset, extra=None):
        self.added.append(asset.name)


def call(dag, task_id, **context):
    return dag.get_task(task_id).python_callable(run_id="r1", **context)


def run_gate(dag, layer):
    events = defaultdict(_Accessor)
    said = call(dag, f"gate_{layer}", outlet_events=events)
    return said, [name for accessor in events.values() for name in accessor.added]


@pytest.mark.parametrize(
    ("layer", "tables"),
    [
        ("bronze", ["bronze.cloudtrail_records"]),
        ("silver", ["silver.cloudtrail_events"]),
        ("gold", ["gold.cloudtrail_activity_1h", "gold.cloudtrail_principal_activity_1h", "gold.cloudtrail_denied_15m"]),
    ],
)
def test_a_gate_that_passes_is_green_and_announces_its_tables(dag, answers, layer, tables):
    answers({"outcome": "pass", "sentence": "passed", "tables": tables})
    assert run_gate(dag, layer)[1] == tables


@pytest.mark.parametrize("outcome", ["warn", "hold", "none"])
def test_a_gate_that_warns_holds_or_had_nothing_to_judge_is_green_and_announces_nothing(dag, answers, outcome):
    answers({"outcome": outcome, "sentence": "batch held", "tables": []})
    said, announced = run_gate(dag, "silver")
    assert said["sentence"] == "batch held"
    assert announced == []


def test_a_gate_that_stopped_is_red_for_good_and_says_the_verdict(dag, answers):
    answers({"outcome": "stop", "sentence": "event_id is not unique"}, exit_code=6)
    with pytest.raises(AirflowFailException, match="event_id is not unique"):
        run_gate(dag, "silver")


def test_a_gate_without_an_answer_is_not_green(dag, monkeypatch):
    monkeypatch.setattr(tasks, "job_command", lambda job, **_: [sys.executable, "-c", "print('nothing of use')"])
    with pytest.raises(CommandFailed, match="nothing of use"):
        run_gate(dag, "gold")


@pytest.mark.parametrize("exit_code", [-6, 134])
def test_a_gate_cut_off_after_its_answer_is_red_and_does_not_say_it_passed(dag, monkeypatch, exit_code):
    program = 'import os, sys; print(\'{"outcome": "pass", "sentence": "all passed", "tables": []}\', flush=True); '
    program += "os.kill(os.getpid(), 6)" if exit_code < 0 else f"sys.exit({exit_code})"
    monkeypatch.setattr(tasks, "job_command", lambda job, **_: [sys.executable, "-c", program])
    with pytest.raises(AirflowFailException, match=rf"^gate_gold ended with exit code {exit_code}, having said: all passed$"):
        run_gate(dag, "gold")


def test_discover_with_nothing_to_do_skips_the_rest(dag, answers):
    answers({"has_work": False, "java_options": "", "sentence": "Nothing new"})
    assert not call(dag, "discover")


@pytest.mark.parametrize(("params", "options"), [({"sweep": False}, []), ({"sweep": True}, ["--sweep"])])
def test_a_run_triggered_with_sweep_lists_everything(dag, answers, monkeypatch, params, options):
    answers({"has_work": False, "java_options": "", "sentence": ""})
    given, asked = tasks.job_command, []
    monkeypatch.setattr(tasks, "job_command", lambda job, **arguments: asked.append(arguments["options"]) or given(job, **arguments))
    call(dag, "discover", params=params)
    assert asked == [options]
    assert dag.params["sweep"] is False, "the schedule does not sweep; discover does it by itself once a day"


@pytest.mark.parametrize(
    ("end", "last"), [(datetime(2024, 5, 1, 13, 10, tzinfo=UTC), "2024-05-01"), (datetime(2024, 5, 2, tzinfo=UTC), "2024-05-01")]
)
def test_a_run_of_airflows_own_backfill_lists_only_the_dates_of_its_interval(dag, answers, monkeypatch, end, last):
    class BackfillRun:
        run_type, data_interval_start, data_interval_end = "backfill", datetime(2024, 4, 30, 23, 10, tzinfo=UTC), end

    answers({"has_work": False, "java_options": "", "sentence": ""})
    given, asked = tasks.job_command, []
    monkeypatch.setattr(tasks, "job_command", lambda job, **arguments: asked.append(arguments["options"]) or given(job, **arguments))
    call(dag, "discover", params={"sweep": False}, dag_run=BackfillRun)
    assert asked == [["--from=2024-04-30", f"--to={last}"]]


def test_discover_with_work_hands_on_the_java_options(dag, answers):
    answers({"has_work": True, "java_options": "-Xfoo", "sentence": "3 new"})
    assert call(dag, "discover")["java_options"] == "-Xfoo"


@pytest.mark.parametrize(("exit_code", "is_final"), [(1, False), (2, True), (3, False), (4, True), (5, True), (6, True), (7, False)])
def test_only_faults_that_time_may_heal_are_tried_again(dag, answers, exit_code, is_final):
    answers({"error": "X", "sentence": "it broke"}, exit_code=exit_code)
    with pytest.raises(AirflowException, match="it broke") as fault:
        call(dag, "discover")
    assert isinstance(fault.value, AirflowFailException) == is_final
    assert isinstance(said_fault("build_silver", exit_code, "it broke"), AirflowFailException) == is_final


def test_a_spark_job_that_fails_says_the_jobs_own_sentence(dag, shape, monkeypatch, tmp_path):
    program = tmp_path / "spark-submit"
    program.write_text(
        '#!/bin/sh\necho "starting"\necho \'{"error": "LeaseHeld", "sentence": "another writer holds it"}\'\necho "shut down"\nexit 3\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    job = next(task for task in dag.tasks if isinstance(task, SparkJob))
    with pytest.raises(AirflowException, match=r"^another writer holds it$") as fault:
        job.execute({})
    assert not isinstance(fault.value, AirflowFailException)


def test_the_answer_is_the_last_json_object_whatever_is_written_after_it():
    assert last_answer(["{broken", '{"a": 1}', '{"a": 2}', "done", "[3]"]) == {"a": 2}
    assert last_answer(["no", "{broken"]) is None


def test_the_exit_code_of_a_command_is_part_of_its_answer():
    assert ask([sys.executable, "-c", "import sys; print('{}'); sys.exit(6)"]).exit_code == 6


def test_a_failed_run_is_one_sentence_that_names_the_failed_tasks(tmp_path, caplog):
    class Thing:
        def __init__(self, **attributes):
            self.__dict__.update(attributes)

    say = SayFailure(tmp_path)
    gate = Thing(dag_id="d", run_id="r1", task_id="gate_silver")
    say.of_task({"ti": gate, "exception": AirflowFailException("event_id is not unique\nsecond line")})
    say.of_task({"ti": Thing(dag_id="d", run_id="r2", task_id="report"), "exception": None})
    say.of_run({"dag_run": Thing(dag_id="d", run_id="r1"), "reason": "task_failure"})
    told = say.records("r1")
    assert [record["task_id"] for record in told] == ["gate_silver", None]
    assert told[1]["sentence"] == "Run r1 of d failed (gate_silver: event_id is not unique). What was published before stays."
    assert told[1]["sentence"] in caplog.text


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        (['{"sentence": "The disk is full."}', "26/11/21 09:00:01 INFO ShutdownHookManager: called"], "The disk is full."),
        (["09:00:00 bronze: running.", "java.net.SocketException: Connection reset", "\t... 8 more"], "09:00:00 bronze: running."),
        (["Killed", ""], "Killed"),
        ([], ""),
    ],
)
def test_a_job_that_was_cut_off_is_quoted_with_what_it_said_itself(log, sentence):
    from dags.factory.spark_job import _sentence

    assert _sentence(log) == sentence
