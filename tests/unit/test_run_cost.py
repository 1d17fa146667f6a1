"""What a run cost is one row of `_ops.runs`, with all that its processes took, and never a reason to fail."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

from spark_jobs.jobs.run import Run
from spark_jobs.jobs.run_cost import record_cost
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.tables import BOOKS, FILE_OUTCOMES, RUNS
from tests.builders.ops_rows import BRONZE, books_row, outcome_row, small_settings, write

BURN_S = 0.4


def test_counts_the_processor_time_of_every_descendant():
    """A child that is alive, and a grandchild that has ended, burn the same time; this process itself does next to nothing."""
    burn = f"import time; end = time.process_time() + {BURN_S}\nwhile time.process_time() < end: pass"
    child = f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {burn!r}])\n{burn}\nprint('done', flush=True); input()"
    code = f"""
import json, subprocess, sys
from spark_jobs.io.process_cost import cost_so_far
before = cost_so_far().cpu_s
child = subprocess.Popen([sys.executable, "-c", {child!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
after = cost_so_far()
child.communicate(b"end")
print(json.dumps([after.cpu_s - before, after.wall_s]))
"""
    cpu_s, wall_s = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert cpu_s >= 2 * BURN_S * 0.95
    assert wall_s >= 2 * BURN_S


def test_one_row_says_what_this_process_read_and_took(tmp_path):
    settings = small_settings(tmp_path)
    later, before = datetime.now(UTC) + timedelta(hours=1), datetime.now(UTC) - timedelta(days=1)
    run = Run(settings, load_pipeline("cloudtrail"), "r1", small=True, backfill_id="bf")
    mine = {"run_id": "r1", "read_at": later}
    write(settings, FILE_OUTCOMES, outcome_row(settings, "a.gz", **mine), outcome_row(settings, "b.gz", outcome="failed", **mine))
    write(settings, FILE_OUTCOMES, outcome_row(settings, "c.gz", run_id="another", read_at=later))
    write(settings, BOOKS, books_row(BRONZE, read=4, written=4, run_id="r1", finished_at=later))
    write(settings, BOOKS, books_row(BRONZE, read=9, written=9, run_id="r1", finished_at=before))  # an earlier process of the same run
    write(settings, BOOKS, books_row(read=4, written=4, run_id="r1", finished_at=later))
    record_cost(run, "run_layers", ("bronze", "silver"))
    (row,) = run.ops.read(RUNS).to_pylist()
    assert (row["files"], row["bytes"], row["records"], row["layers"]) == (2, 200, 4, "bronze,silver")
    assert (row["is_small"], row["backfill_id"], row["job"]) == (True, "bf", "run_layers")
    assert row["wall_s"] > 0 and row["cpu_s"] > 0


def test_a_run_with_nothing_to_do_leaves_no_row_and_a_stopped_one_does(tmp_path):
    run = Run(small_settings(tmp_path), load_pipeline("cloudtrail"), "r1")
    record_cost(run, "build_silver", ("silver",))
    assert run.ops.read(RUNS).num_rows == 0
    record_cost(run, "build_silver", ("silver",), stopped=True)
    assert run.ops.read(RUNS).num_rows == 1


def test_a_run_does_not_fail_because_its_cost_cannot_be_written(tmp_path, capsys):
    settings = small_settings(tmp_path)
    run = Run(settings, load_pipeline("cloudtrail"), "r1")
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "_ops").write_text("a file where the folder should be")
    record_cost(run, "run_layers", ("bronze",), stopped=True)
    assert "What this run cost was not recorded" in capsys.readouterr().err


def test_a_backfill_gives_way_with_every_thread_and_process():
    """Another thread of the process, and a child started later, are as nice as the one that asked."""
    code = """
import os, psutil, subprocess, sys, threading
from spark_jobs.io.priority import give_way
ended = threading.Event()
other = threading.Thread(target=ended.wait)
other.start()
give_way(psutil.Process())
child = subprocess.run([sys.executable, "-c", "import os; print(os.nice(0))"], capture_output=True, text=True)
print(os.nice(0), os.getpriority(os.PRIO_PROCESS, other.native_id), child.stdout)
ended.set()
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["5", "5", "5"]
