"""History brought in by a backfill, and hourly runs beside one, on a stage of their own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from spark_jobs.io.java_options import archive_options
from tests.bench.measure import Cost
from tests.bench.reference_set import DAYS, START, LandedSet
from tests.bench.stage import CACHE, PROJECT, Stage

BEGUN_S = 15.0  # by then the backfill's driver is up and its first files are with bronze


class Backfills:
    def __init__(self, sets: Sequence[LandedSet]) -> None:
        self._sets = sets
        self._stage = Stage(CACHE / "backfill")

    def load(self) -> tuple[Cost, float, float]:
        """The reference set as history, on a lake that knows how long a plain run of another set took; predicted wall and CPU seconds."""
        self._stage.clear()
        self._stage.land(self._sets[1])
        _, answer = self._stage.discover()
        self._stage.submit("run_layers", java_options=answer["java_options"], gates=True)
        self._stage.land(self._sets[0])
        planned = self._plan(0)
        job = PROJECT / "spark_jobs" / "jobs" / "backfill_chunk.py"
        options = archive_options(self._stage.settings(), small=False)
        cost = self._stage.script(job, *_chunk(planned), java_options=options, gates=True)
        [row] = json.loads(self._assay("backfill", "status", "--json"))
        return cost, row["predicted_s"], row["predicted_cpu_s"]

    def hour_alone_and_beside(self) -> tuple[float, float]:
        """Wall seconds of an hourly run of two files without and with a backfill at work that began a little earlier."""
        newest = self._sets[0].files[-6:]
        self._stage.clear()
        self._hour(newest[:2])  # the tables are made by it
        alone = self._hour(newest[2:4])
        planned = self._plan(1, "--source", str(self._sets[1].folder))
        command = [sys.executable, "-m", "spark_jobs.jobs.backfill_chunk", *_chunk(planned)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, cwd=PROJECT, env=self._stage.environment(), **quiet) as at_work:
            time.sleep(BEGUN_S)
            if at_work.poll() is not None:
                raise RuntimeError(f"The backfill ended with {at_work.returncode} before the hourly run began.")
            beside = self._hour(newest[4:])
            if at_work.wait():
                raise RuntimeError(f"The backfill beside an hourly run ended with {at_work.returncode}.")
        return alone, beside

    def _hour(self, files: Sequence[Path]) -> float:
        for file in files:
            target = self._stage.folder / "landing" / file.relative_to(self._sets[0].folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.hardlink_to(file)
        began = time.monotonic()
        for job in ("discover", "run_layers"):  # not by `measure`, which would wait for the backfill too
            command = [sys.executable, "-m", f"spark_jobs.jobs.{job}", "--pipeline", "cloudtrail", "--run-id", f"hour-{began}"]
            subprocess.run(command, cwd=PROJECT, env=self._stage.environment(), check=True, capture_output=True, text=True)
        return time.monotonic() - began

    def _plan(self, number: int, *more: str) -> str:
        first = (START + timedelta(days=number * DAYS)).date()
        dates = ["--from", str(first), "--to", str(first + timedelta(days=DAYS))]
        said: dict[str, Any] = json.loads(self._assay("backfill", "plan", *dates, *more, "--json"))
        return str(said["backfill_id"])

    def _assay(self, *words: str) -> str:
        command = [sys.executable, "-m", "spark_jobs.cli.main", *words]
        return subprocess.run(command, cwd=PROJECT, env=self._stage.environment(), check=True, capture_output=True, text=True).stdout


def _chunk(backfill_id: str) -> list[str]:
    return ["--pipeline", "cloudtrail", "--run-id", "bench", "--backfill", backfill_id, "--chunk", "0"]
