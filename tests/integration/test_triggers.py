"""The same jobs under each trigger: a real process that takes new files until it is told to end."""

import signal
import subprocess
import time

import pytest

from tests.builders.progress_of_books import assert_progress_matches_books
from tests.builders.stack import Stack

PATIENCE_S = 180


@pytest.mark.parametrize("trigger", ["every 1 second", "as fast as possible"])
def test_a_running_job_takes_new_files_and_ends_between_batches(tmp_path, trigger):
    stack = Stack(tmp_path, trigger=trigger, gold_trigger="every 1 second", gates=False)
    stack.land_sample(lambda name: "T1145Z" in name)
    stack.discover()
    job = subprocess.Popen(
        stack.command("run_layers"), env=stack.environment(), cwd=stack.project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        _wait(job, lambda: _events(stack) == 29)
        stack.land_sample(lambda name: "T1235Z" in name)
        stack.discover()
        _wait(job, lambda: _events(stack) == 34)
        job.send_signal(signal.SIGTERM)
        out, err = job.communicate(timeout=PATIENCE_S)
    finally:
        job.kill()
    assert job.returncode == 0, err
    assert '"layers": ["bronze", "silver", "gold"]' in out
    assert all(row["is_balanced"] for row in stack.rows("_ops.books"))
    assert_progress_matches_books(stack)  # the last batch's too
    (cost,) = stack.rows("_ops.runs")
    landed = sum(row["size"] for row in stack.rows("_ops.files"))
    assert (cost["job"], cost["layers"], cost["records"], cost["bytes"]) == ("continuous", "bronze,silver,gold", 34, landed)
    assert cost["wall_s"] > 0 and cost["cpu_s"] > 1  # a JVM's start alone takes more than a second


def test_once_takes_everything_in_bounded_batches(tmp_path, spark):
    stack = Stack(tmp_path, spark, batch_files=3, gates=False)
    stack.land_sample(lambda name: name.split("_")[3] <= "20230710T1205Z")
    stack.discover()
    stack.run("bronze")
    books = [row for row in stack.rows("_ops.books") if row["layer"] == "bronze"]
    assert sorted(row["files_read"] for row in books) == [1, 3, 3]


@pytest.mark.parametrize("trigger", ["whenever", "every 0 seconds", "continuous"])
def test_an_impossible_trigger_is_refused_before_spark_starts(tmp_path, trigger):
    stack = Stack(tmp_path)
    refused = stack.job("run_layers", env={"ASSAY_TRIGGER": trigger})
    assert refused.returncode == 2
    assert "ASSAY_TRIGGER" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert "Spark" not in refused.stderr.replace("Spark's", "")


def _events(stack):
    return sum(row["event_count"] for row in stack.rows("gold.cloudtrail_activity_1h"))


def _wait(job, condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert job.poll() is None, job.communicate()[1]
        assert time.monotonic() < deadline, "the job did not take the files"
        time.sleep(0.5)
