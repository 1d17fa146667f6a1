"""A lake after a first delivery, with a second one landed: runs that are killed on the way must end as the undisturbed one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa

from spark_jobs.io.ops import Ops
from spark_jobs.spec.errors import LeaseHeld
from spark_jobs.spec.tables import TableId
from tests.builders.deliveries import BATCH_FILES, FIRST, SECOND, deliver
from tests.builders.kill_at import KillPoint, command
from tests.builders.stack import PROJECT, Stack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# When it was written and by whom differs between any two runs; everything else must be equal.
OF_THE_RUN = {
    "_ingested_at", "_listed_at", "_ingest_date", "listed_at", "read_at", "run_id", "started_at", "finished_at", "epoch", "chunk",
    "source_version", "target_version", "verdict_id", "amended_at", "late_s",
}  # fmt: skip
OPS = ("_ops.files", "_ops.file_outcomes", "_ops.books", "_ops.amendments")
SIDES = ("quarantine", "duplicates", "held")


class Scene:
    """`undisturbed` is what every disturbed run must end as. Made once; each disturbance works on a copy of the lake.

    `finished`: the lake of that undisturbed run, with both deliveries: bronze batches 0 to 2, silver and gold 0 and 1.
    """

    def __init__(self, folder: Path, spark: SparkSession, **settings: Any) -> None:
        self.folder, self.spark = folder, spark
        # A file whose failure may heal is read again after ten minutes, which is no part of what these tests compare.
        self.settings = {"batch_files": BATCH_FILES, "retry_attempts": 1, **settings}
        base = self._stack(folder / "base")
        deliver(base.landing, FIRST)
        base.discover()
        assert base.run() is None
        deliver(base.landing, SECOND)
        self.base = base
        self.finished = self.copy("undisturbed")
        self.finished.discover()
        assert self.finished.run() is None
        self.undisturbed = everything(self.finished)

    def copy(self, name: str, *, of: Stack | None = None) -> Stack:
        """A stack of its own on a copy of the lake (default: as it was before the second delivery), with the same landing folder."""
        source = of or self.base
        target = self.folder / name
        shutil.copytree(source.folder / "lake", target / "lake")
        stack = self._stack(target)
        stack._runs = source._runs
        return stack

    def _stack(self, folder: Path) -> Stack:
        stack = Stack(folder, self.spark, **self.settings)
        stack.landing = self.folder / "base" / "landing"
        stack.settings = stack.settings.model_copy(update={"landing": str(stack.landing)})
        stack.ops = Ops(stack.settings)
        return stack


def kill(stack: Stack, point: KillPoint, **env: str) -> None:
    """Run the job of the point until it is killed there."""
    with started(stack, point, **env) as job:
        log = job.communicate(timeout=300)[1]
    assert job.returncode == -signal.SIGKILL, f"{point.name}: the job ended with {job.returncode} before it met the point\n{log}"


def overtaken(stack: Stack, point: KillPoint, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the job until it freezes at the point, JVM and all; let this process take over and finish; wake it up and wait for its end."""
    job = started(stack, point, **env)
    try:
        while (state := psutil.Process(job.pid).status()) != psutil.STATUS_STOPPED:
            assert job.poll() is None, f"the job ended before it met the point ({state})\n{job.communicate()[1]}"
            time.sleep(0.05)
        for process in (asleep := processes_of(stack)):
            process.suspend()
        while True:
            try:
                assert stack.run() is None
                break
            except LeaseHeld:  # its lease has yet to lapse
                time.sleep(0.5)
        for process in asleep:
            process.resume()
        out, log = job.communicate(timeout=300)
    finally:
        for process in processes_of(stack):  # none is left unless a check above failed
            process.kill()
    return subprocess.CompletedProcess(job.args, job.returncode, out, log)


def started(stack: Stack, point: KillPoint | None = None, job: str = "run_layers", **env: str) -> subprocess.Popen[str]:
    """A job as a process of its own that is under way."""
    words = stack.command(point.job if point else job)
    if point and "." in point.job:  # a module by its whole name
        words[2] = point.job
    words = command(point, words) if point else words
    return subprocess.Popen(words, env=stack.environment(env), cwd=PROJECT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def everything(stack: Stack) -> dict[str, list[str]]:
    """All tables of a stack, each as sorted rows without what only says when and by which run a row was written."""
    tables = [str(name) for name in stack.pipeline.all_tables]
    tables += [str(TableId.parse(name).side(side)) for name in tables[:2] for side in SIDES]
    return {name: content for name in (*tables, *OPS) if (content := _rows(stack.arrow(name)))}


def _rows(rows: pa.Table) -> list[str]:
    kept = [name for name in rows.column_names if name not in OF_THE_RUN]
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows.select(kept).to_pylist())


def differences(found: dict[str, list[str]], wanted: dict[str, list[str]]) -> list[str]:
    """What to print when two lakes are not equal: for each table, the rows that only one of them has."""
    said = []
    for name in sorted({*found, *wanted}):
        one, other = found.get(name, []), wanted.get(name, [])
        if one != other:
            said.append(f"{name}: {len(one)} rows, undisturbed {len(other)}")
            said += [f"  only here: {row[:300]}" for row in sorted({*one} - {*other})[:5]]
            said += [f"  missing:   {row[:300]}" for row in sorted({*other} - {*one})[:5]]
    return said


def survivors(stack: Stack, within_s: float = 60) -> list[psutil.Process]:
    """The processes that still work on the stack's lake, after they had time to notice that their driver is gone.

    The time is a bound on a loaded machine, not a promise: a JVM ends as soon as it reads the end of its driver's pipe.
    """
    deadline = time.monotonic() + within_s
    while (left := processes_of(stack)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def processes_of(stack: Stack) -> list[psutil.Process]:
    """Every process that works on the stack's lake, whoever its parent is now: found by its environment."""
    found = []
    for process in psutil.process_iter():
        try:
            is_alive = process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE
            if is_alive and process.environ().get("ASSAY_LAKE") == stack.settings.lake:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found
