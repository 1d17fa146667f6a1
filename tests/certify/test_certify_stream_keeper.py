"""`assay stream start`: a driver that is killed is started again, one at the end of its lifetime is relieved, `stop` ends it all."""

import json
import signal
import subprocess
import sys
import time

import psutil
import pytest

from spark_jobs.io.relay import driver_of
from spark_jobs.io.work import unfinished_layers
from spark_jobs.jobs.query_events import newest_events
from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.stack import Stack

pytestmark = pytest.mark.certify
PATIENCE_S = 240


def test_a_kept_driver_survives_a_kill_and_its_own_lifetime_and_ends_when_asked(tmp_path):
    stack = Stack(tmp_path, trigger="every 1 second", gold_trigger="every 1 second", gates=False, lease_ttl_s=10)
    stack.land_sample(lambda name: "T1145Z" in name)
    command = [sys.executable, "-m", "spark_jobs.cli.main", "stream"]
    with (tmp_path / "log").open("w") as log:
        keeper = subprocess.Popen([*command, "start", "--lifetime-min", "1.5"], env=stack.environment(), cwd=stack.project, stderr=log)
        try:
            _until(keeper, lambda: _counted(stack) == 29)
            first = driver_of(stack.settings, stack.pipeline)
            psutil.Process(first.pid).send_signal(signal.SIGKILL)
            stack.land_sample(lambda name: "T1235Z" in name)
            _until(keeper, lambda: _counted(stack) == 34)
            second = driver_of(stack.settings, stack.pipeline)
            assert second.pid != first.pid
            _until(keeper, lambda: (driver_of(stack.settings, stack.pipeline) or second).pid not in (first.pid, second.pid))
            stack.land_sample(lambda name: "T1205Z" in name)
            _until(keeper, lambda: _is_taken(stack))
            stopped = subprocess.run(
                [*command, "stop", "--json"], env=stack.environment(), cwd=stack.project, capture_output=True, text=True
            )
            assert json.loads(stopped.stdout)["was_running"] is True
            assert keeper.wait(PATIENCE_S) == 0
        finally:
            for process in [*psutil.Process(keeper.pid).children(recursive=True), keeper] if keeper.poll() is None else []:
                process.kill()
    assert "The driver failed (1 of 30 in a row)" in (tmp_path / "log").read_text()
    events = [row["event"] for row in reversed(newest_events(stack.settings, stack.pipeline, table=""))]
    assert events.count("started") >= 3 and events.count("started") - events.count("terminated") == 1  # one was killed without a word
    assert "handed_over" in events and events[-1] == "terminated"
    assert_every_record_accounted_for(stack)


def _counted(stack):
    return sum(row["event_count"] for row in stack.rows("gold.cloudtrail_activity_1h", ["event_count"]))


def _is_taken(stack):
    """Every landed file is in the ledger, and every layer has consumed its source."""
    listed = {row["path"] for row in stack.rows("_ops.files", ["path"])}
    return {str(path) for path in stack.landing.rglob("*.gz")} <= listed and not unfinished_layers(stack.settings, stack.pipeline)


def _until(keeper, condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert keeper.poll() is None and time.monotonic() < deadline
        time.sleep(0.5)
