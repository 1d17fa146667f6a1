"""Deciding about a held or stopped batch: once, whoever asks; and what a person is shown before."""

import json
import os
import subprocess
import sys
import threading

import pytest

from spark_jobs.io.ops import Ops
from spark_jobs.jobs.decide import AlreadyDecided, decide
from spark_jobs.spec.tables import BOOKS, DECISIONS, VERDICTS
from tests.builders.ops_rows import ACTIVITY, BATCH, NOW, SILVER, books_row, environment, failed_verdict, record, small_settings, write
from tests.builders.stack import PROJECT

TABLE = str(SILVER)


def held_lake(folder):
    settings = small_settings(folder)
    write(settings, VERDICTS, failed_verdict(outcome="hold"))
    write(settings, BOOKS, books_row(read=4, written=0, held=4, outcome="hold"))
    secret = record(settings, "a.gz", 0, SILVER.side("held"), verdict_id="v", principal_arn="arn:aws:iam::1:user/Alice")
    write(settings, SILVER.side("held"), secret)
    return settings


def job(settings, name, *options):
    command = [sys.executable, "-m", f"spark_jobs.jobs.{name}", "--pipeline", "cloudtrail", "--run-id", "r", *options]

    ran = subprocess.run(command, cwd=PROJECT, env={**os.environ, **environment(settings)}, capture_output=True, text=True)
    return ran.returncode, json.loads(ran.stdout.splitlines()[-1])


def test_of_many_who_decide_at_once_one_does_and_the_others_hear_who(tmp_path):
    settings = held_lake(tmp_path)
    told, start = [], threading.Barrier(6)

    def person(number):
        start.wait()
        try:
            decide(settings, TABLE, BATCH, "release" if number % 2 else "reject", who=f"person {number}", note="", at=NOW)
            told.append("recorded")
        except AlreadyDecided as fault:
            told.append(str(fault))

    people = [threading.Thread(target=person, args=(number,)) for number in range(6)]
    for one in people:
        one.start()
    for one in people:
        one.join()
    recorded = Ops(settings).read(DECISIONS).to_pylist()
    assert len(recorded) == 1
    assert len(told) == 6 and told.count("recorded") == 1
    others = [sentence for sentence in told if sentence != "recorded"]
    assert all(f"already decided by {recorded[0]['who']}" in sentence for sentence in others)


def test_the_job_records_who_and_says_without_a_fault_that_somebody_was_quicker(tmp_path):
    settings = held_lake(tmp_path)
    where = ("--table", TABLE, "--batch", BATCH)
    code, said = job(settings, "decide", *where, "--decision", "release", "--who", "ann", "--note", "seen")
    assert (code, said["is_recorded"], said["who"]) == (0, True, "ann")
    code, said = job(settings, "decide", *where, "--decision", "reject", "--who", "bob")
    assert (code, said["is_recorded"]) == (0, False)
    assert "already decided by ann: released" in said["sentence"]
    assert [row["who"] for row in Ops(settings).read(DECISIONS).to_pylist()] == ["ann"]


def test_what_a_person_is_shown_names_what_failed_and_masks_the_data(tmp_path):
    settings = held_lake(tmp_path)
    code, said = job(settings, "waiting", "--table", TABLE, "--batch", BATCH)
    assert code == 0
    assert (said["is_waiting"], said["options"]) == (True, ["release", "reject"])
    page = said["markdown"]
    assert "expect\\_column\\_values\\_to\\_match\\_regex" in page
    assert "4 rows" in page and "4 rows" in said["subject"]
    assert '"principal_arn": "xxx:xxx:xxx::0:xxxx/xxxxx"' in page
    assert "Alice" not in page
    assert "**Release**: this run publishes its rows" in page and "**Reject**" in page
    assert said["java_options"]


def test_once_decided_nothing_waits(tmp_path):
    settings = held_lake(tmp_path)
    said = job(settings, "waiting")[1]
    assert [(row["table"], row["batch_id"], row["state"]) for row in said["batches"]] == [(TABLE, BATCH, "held")]
    decide(settings, TABLE, BATCH, "release", who="ann", note="", at=NOW)
    assert job(settings, "waiting")[1]["batches"] == []
    said = job(settings, "waiting", "--table", TABLE, "--batch", BATCH)[1]
    assert (said["is_waiting"], said["options"]) == (False, [])
    assert said["sentence"] == f"{TABLE} {BATCH} is released, decided by ann."


def test_of_gold_only_release_is_offered(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, VERDICTS, failed_verdict(ACTIVITY, outcome="stop"))
    said = job(settings, "waiting", "--table", str(ACTIVITY), "--batch", BATCH)[1]
    assert said["options"] == ["release"]
    assert "Reject" not in said["markdown"]


@pytest.mark.parametrize("text", ["a | b", "<script>alert(1)</script>", "[x](javascript:alert(1))", "line\nbreak", "`tick`"])
def test_a_value_cannot_become_markup_or_end_its_cell(tmp_path, text):
    from spark_jobs.report.held_batch import _cell

    shown = _cell(text)
    assert "\n" not in shown
    bare = shown.replace("\\|", "").replace("\\<", "").replace("\\>", "").replace("\\[", "").replace("\\]", "").replace("\\`", "")
    assert not set("|<>[]`") & set(bare)
