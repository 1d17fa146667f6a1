"""`assay status --watch` on a real terminal and without one; `assay progress`; what a look costs does not grow with history."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from spark_jobs.cli.watch import alert_lines, doing, sparkline
from spark_jobs.io.lease import Leases
from spark_jobs.io.lease_holder import CONTINUOUS
from spark_jobs.io.ops import SCHEMAS
from spark_jobs.io.query_state import QueryStates
from spark_jobs.report.live import Live
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.tables import INCIDENTS, PROGRESS
from tests.builders.assay_command import assay, assay_json
from tests.builders.ops_rows import SILVER, environment, small_lake, write
from tests.builders.progress_row import progress_row

PATIENCE_S = 90
COMMAND = [sys.executable, "-m", "spark_jobs.cli.main", "status", "--watch", "--every", "0.3"]


@pytest.mark.parametrize("columns", [80, 200])
def test_the_screen_follows_the_batches_and_ctrl_c_ends_it_cleanly(tmp_path, columns):
    settings = small_lake(tmp_path)
    write(settings, PROGRESS, progress_row(datetime.now(UTC) - timedelta(minutes=5)))
    leader, follower = pty.openpty()
    env = {**os.environ, **environment(settings), "COLUMNS": str(columns), "LINES": "24", "TERM": "xterm-256color"}
    watching = subprocess.Popen(COMMAND, env=env, stdin=follower, stdout=follower, stderr=follower, start_new_session=True, preexec_fn=_own)
    os.close(follower)
    screen = _Screen(leader)
    screen.until("5 min ago", "silver.cloudtrail_events", "1.0 MB of 64.0 MB", "50, 250", "Nobody is writing now")
    with Leases(settings, [load_pipeline("cloudtrail").relay, SILVER], "night shift", mode=CONTINUOUS):
        here = {"message": "Waiting for data to arrive", "is_data_available": True, "is_trigger_active": False, "run_id": "r"}
        QueryStates(settings).write(str(SILVER), {**here, "host": os.uname().nodename, "pid": os.getpid()})
        write(settings, PROGRESS, progress_row(datetime.now(UTC), batch_id="v1-00000004", input_rows=1000, processed_rows_per_s=4321.0))
        screen.until("v1-00000004", "4,321", "Run continuously by night shift", "Waiting for data", "▅█")
    screen.until("gold.cloudtrail", "Ctrl-C ends the screen")  # all of it fits
    os.write(leader, b"\x03")
    assert watching.wait(PATIENCE_S) == 0
    screen.until("\x1b[?1049l", "\x1b[?25h")  # the terminal is as it was, with its cursor
    assert "Traceback" not in screen.text
    if columns == 80:
        assert "took: \x1b[0m2.0 s" in screen.text  # each query in lines of its own


def test_without_a_terminal_it_prints_plain_lines_once_per_interval(tmp_path):
    settings = small_lake(tmp_path)
    write(settings, PROGRESS, progress_row(datetime.now(UTC)))
    watching = subprocess.Popen(
        COMMAND, env={**os.environ, **environment(settings)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    seen = []
    while sum(line.startswith("cloudtrail at ") for line in seen) < 3:
        seen.append(watching.stdout.readline())
    watching.send_signal(signal.SIGTERM)
    _, err = watching.communicate(timeout=PATIENCE_S)
    assert (watching.returncode, err) == (0, "")
    assert "\x1b" not in "".join(seen)


def test_what_a_query_does_is_told_only_while_its_driver_lives(tmp_path):
    settings, pipeline = small_lake(tmp_path), load_pipeline("cloudtrail")
    write(settings, PROGRESS, progress_row(datetime.now(UTC)))
    said = {"message": "Processing new data", "is_data_available": True, "is_trigger_active": True, "host": os.uname().nodename}
    QueryStates(settings).write(str(SILVER), {**said, "pid": os.getpid()})
    with Leases(settings, [SILVER], "us"):
        silver = _silver(Live(settings, pipeline))
        assert doing(silver) == "Processing new data (data,at work)"
        (told,) = [query for query in assay_json(settings, "status")["pipelines"][0]["queries"] if query["table"] == str(SILVER)]
        assert (told["message"], told["is_data_available"], told["is_trigger_active"]) == ("Processing new data", True, True)
        assert "Processing new data" in assay(settings, "status").stdout
        QueryStates(settings).write(str(SILVER), {**said, "pid": 1})  # left by one that was killed
        assert doing(_silver(Live(settings, pipeline))) == "us holds it"
    assert doing(_silver(Live(settings, pipeline))) == "not running"


def test_a_look_reads_new_files_alone_whatever_the_history(tmp_path):
    settings, pipeline = small_lake(tmp_path), load_pipeline("cloudtrail")
    now = datetime.now(UTC)
    history = [progress_row(now - timedelta(seconds=10_000 - number), batch_id=f"v1-{number:08d}") for number in range(9_900)]
    write_deltalake(settings.location(PROGRESS), pa.Table.from_pylist(history, schema=SCHEMAS[PROGRESS]), partition_by=["day"])
    for number in range(70):
        write(settings, PROGRESS, progress_row(now + timedelta(seconds=number), batch_id=f"v1-{9_900 + number:08d}"))
    live = Live(settings, pipeline)
    assert _silver(live)["batch_id"] == "v1-00009969"
    assert len(live._progress._parts) == 60, "the newest commits alone: the ten thousand rows before them are not read"
    before = dict(live._progress._parts)
    write(settings, PROGRESS, progress_row(now + timedelta(seconds=99), batch_id="v1-00009970"))
    assert _silver(live)["batch_id"] == "v1-00009970"
    assert sum(part is not before.get(name) for name, part in live._progress._parts.items()) == 1


def test_incidents_that_fire_are_on_the_screen_until_they_are_over(tmp_path):
    settings, pipeline = small_lake(tmp_path), load_pipeline("cloudtrail")
    now = datetime.now(UTC)
    incident = {"pipeline": "cloudtrail", "severity": "warn", "run_id": "r", "since": now, "rule": "behind", "sentence": "It lags."}
    for number in range(7):
        firing = {"incident_id": f"i{number}", "subject": f"s{number}", "state": "firing", "at": now + timedelta(seconds=number)}
        write(settings, INCIDENTS, incident | firing)
    write(settings, INCIDENTS, incident | {"incident_id": "i0", "state": "told firing", "at": now + timedelta(seconds=8)})
    live = Live(settings, pipeline)
    assert alert_lines(live.look(now)) == [f"ALERT behind since {now:%H:%M:%S}: It lags."] * 3 + ["and 4 more: `assay alerts`"]
    for number in range(6):
        over = {"incident_id": f"i{number}", "state": "recovered", "at": now + timedelta(seconds=9)}
        write(settings, INCIDENTS, incident | over)
    assert len(alert_lines(live.look(now))) == 1


def test_progress_shows_the_batches_of_a_time(tmp_path):
    settings = small_lake(tmp_path)
    assert "No batch has ended within 1h" in assay(settings, "progress").stdout
    now = datetime.now(UTC)
    write(settings, PROGRESS, progress_row(now - timedelta(hours=3), batch_id="v1-00000001"))
    write(settings, PROGRESS, progress_row(now), progress_row(now, table="gold.cloudtrail", target_version=None))
    printed = assay(settings, "progress").stdout
    assert "addBatch 1.5 s" in printed and "2 batches." in printed
    rows = assay_json(settings, "progress", "--since", "4h", "--table", "silver.cloudtrail_events")
    assert [row["batch_id"] for row in rows] == ["v1-00000001", "v1-00000003"]
    assert rows[0]["phases"]["walCommit"] == 300
    refused = assay(settings, "progress", "--since", "yesterday", exit_code=2)
    assert "write 30m, 6h or 7d" in refused.stderr


def test_a_sparkline_has_a_character_per_batch():
    assert sparkline([0, 5, 10]) == "▁▅█"
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == "▁▁"


def _silver(live):
    return live.look(datetime.now(UTC))["queries"][1]


class _Screen:
    def __init__(self, terminal):
        self._terminal, self.text = terminal, ""

    def until(self, *wanted):
        deadline = time.monotonic() + PATIENCE_S
        while missing := [text for text in wanted if text not in self.text]:
            assert time.monotonic() < deadline, f"{missing} did not appear in {self.text[-3000:]!r}"
            if select.select([self._terminal], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self._terminal, 65536).decode("utf-8", "replace")
                except OSError:  # the other side has closed
                    time.sleep(0.1)


def _own():
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C reaches it
