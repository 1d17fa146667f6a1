"""What the first task of a DAG asks before any JVM is started: is there anything to do?"""

import json
import os
import subprocess
import sys

import pytest

from tests.builders.ops_rows import SILVER, environment, record, small_settings, write
from tests.builders.stack import PROJECT


def said(settings, job, *options):
    command = [sys.executable, "-m", f"spark_jobs.jobs.{job}", "--pipeline", "cloudtrail", "--run-id", "r", *options]
    ran = subprocess.run(command, cwd=PROJECT, env={**os.environ, **environment(settings)}, capture_output=True, text=True)
    return ran.returncode, json.loads(ran.stdout.splitlines()[-1])


def test_on_an_empty_lake_the_day_has_nothing_to_do(tmp_path):
    code, told = said(small_settings(tmp_path), "look")
    assert (code, told["has_tables"], told["has_gold_work"]) == (0, False, False)
    assert "no silver.cloudtrail_events yet" in told["sentence"]


def test_with_events_that_no_gold_of_days_names_the_day_has_work(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, SILVER, record(settings, "a.gz", 0, SILVER))
    code, told = said(settings, "look")
    assert (code, told["has_tables"], told["has_gold_work"]) == (0, True, True)
    assert "gold.cloudtrail_account_activity_1d" in told["tables"]
    assert told["java_options"]


@pytest.mark.parametrize(("options", "count"), [((), 2), (("--rule=missing_event_id",), 1), (("--rule=other",), 0)])
def test_a_replay_is_told_how_many_records_it_would_read(tmp_path, options, count):
    settings = small_settings(tmp_path)
    assert said(settings, "list_quarantine")[1]["count"] == 0
    side = SILVER.side("quarantine")
    for number, rule in enumerate(("missing_event_id", "wrong_event_time")):
        write(settings, side, record(settings, "a.gz", number, side, rule=rule, reason=f"{rule}: no such field", raw="{}"))
    code, told = said(settings, "list_quarantine", *options)
    assert (code, told["count"]) == (0, count)
    assert f": {count} quarantined records to read again" in told["sentence"]


def test_a_group_that_does_not_exist_is_one_sentence(tmp_path):
    settings = small_settings(tmp_path)
    side = SILVER.side("quarantine")
    write(settings, side, record(settings, "a.gz", 0, side, rule="missing_event_id", reason="x", raw="{}"))
    code, told = said(settings, "list_quarantine", "--fingerprint=abc")
    assert (code, told["error"]) == (2, "UnknownName")
