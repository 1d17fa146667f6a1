"""A continuous driver as its own process, the files that landed for it, and when each was in silver and gold."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow.compute as pc

from spark_jobs.io.lake import commit_metadata, lake_table, rows_of
from spark_jobs.io.relay import driver_of
from spark_jobs.io.work import commit_notes
from spark_jobs.spec.pipeline import load_pipeline
from tests.bench.measure import _proportional_mb, tree_cpu_s
from tests.bench.stage import CACHE, PROJECT, Stage

PIPELINE = load_pipeline("cloudtrail")
PATIENCE_S = 900
MEMORY_EVERY_S = 5.0


class LiveDriver:
    """`with LiveDriver(stage) as driver`: runs until the end of the block, which ends it at a batch boundary."""

    def __init__(self, stage: Stage, lifetime_min: float = 600) -> None:
        self.settings = stage.settings()
        self._stage, self._lifetime_min = stage, lifetime_min
        self._landed: dict[str, float] = {}
        self._rows = 0
        self._memory: list[float] = []
        self._done = threading.Event()
        self.answer: dict[str, Any] = {}

    def __enter__(self) -> LiveDriver:
        command = [sys.executable, "-m", "spark_jobs.jobs.stream", "--pipeline", PIPELINE.name, "--run-id", "bench"]
        (CACHE / "logs").mkdir(parents=True, exist_ok=True)
        self._log = (CACHE / "logs" / "stream.log").open("w")
        self.process = subprocess.Popen(
            [*command, "--lifetime-min", str(self._lifetime_min)], env=self._stage.environment(), cwd=PROJECT, stdout=subprocess.PIPE,
            stderr=self._log, text=True,
        )  # fmt: skip
        self._until(lambda: driver_of(self.settings, PIPELINE) is not None, "start")
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self.process.send_signal(signal.SIGTERM)
        try:
            out, _err = self.process.communicate(timeout=PATIENCE_S)
        finally:
            self.process.kill()
            self._log.close()
        self.answer = json.loads([line for line in out.splitlines() if line.startswith("{")][-1])

    def landed(self, path: Path, at: float) -> None:
        self._landed[str(path)] = at

    def forget(self) -> None:
        """What landed so far is no part of the figures."""
        self._landed.clear()

    def until_taken(self) -> None:
        """Until every file that landed is in silver, and gold has followed."""
        self._until(lambda: set(self._landed) <= set(self.silver_at()), "taking what landed")
        self._until(lambda: len(self.gold_at()) == len(self._landed), "gold's following")

    def silver_at(self) -> dict[str, float]:
        """File to the instant of the commit that has its rows."""
        return {file: at for file, (_, at) in self._silver_commits().items()}

    def gold_at(self) -> dict[str, float]:
        """File to the instant of the first commit of gold that counts it."""
        table = PIPELINE.gold_tables_of("hourly")[-1]
        commits = [(int(note["silver_version"]), _instant(self.settings, table, note)) for note in commit_notes(self.settings, table)]
        found: dict[str, float] = {}
        for file, (version, _) in self._silver_commits().items():
            later = [at for named, at in commits if named >= version]
            if later and file in self._landed:
                found[file] = min(later)
        return found

    def freshness(self) -> dict[str, list[float]]:
        """Seconds from a file's landing to its rows, for every file; per layer."""
        silver, gold = self.silver_at(), self.gold_at()
        return {
            "silver": [silver[file] - at for file, at in self._landed.items()],
            "gold": [gold[file] - at for file, at in self._landed.items()],
        }

    def cpu_s(self) -> float:
        return tree_cpu_s(self.process.pid)

    def cpu_by_process(self) -> dict[int, float]:
        """User and system time of each live process of the driver, without those that it has collected."""
        found = {}
        for process in self._family():
            with suppress(psutil.Error):
                spent = process.cpu_times()
                found[process.pid] = spent.user + spent.system
        return found

    def _family(self) -> list[psutil.Process]:
        root = psutil.Process(self.process.pid)
        return [root, *root.children(recursive=True)]

    def watch_memory(self) -> None:
        threading.Thread(target=self._sample, daemon=True).start()

    def memory_mb(self) -> tuple[float, float]:
        """The middle of the first and of the last fifth of the samples: the first batches and a single collection are no trend."""
        fifth = max(1, len(self._memory) // 5)
        first, last = sorted(self._memory[:fifth]), sorted(self._memory[-fifth:])
        return first[len(first) // 2], last[len(last) // 2]

    def _sample(self) -> None:
        while not self._done.wait(MEMORY_EVERY_S):
            total = 0.0
            try:
                for process in self._family():
                    total += _proportional_mb(process.pid)
            except (psutil.Error, OSError):
                continue
            self._memory.append(total)

    def _silver_commits(self) -> dict[str, tuple[int, float]]:
        found = lake_table(self.settings, PIPELINE.silver_table)
        if found is None:
            return {}
        batches = {
            note["batch_id"]: (int(str(note["version"])), _instant(self.settings, PIPELINE.silver_table, note))
            for note in commit_notes(self.settings, PIPELINE.silver_table)
        }
        pairs = rows_of(found).to_table(columns=["_source_file", "_batch_id"]).group_by(["_source_file", "_batch_id"]).aggregate([])
        mine = pairs.filter(pc.is_in(pairs["_batch_id"], pc.unique(pairs["_batch_id"])))
        return {row["_source_file"]: batches[row["_batch_id"]] for row in mine.to_pylist() if row["_batch_id"] in batches}

    def _until(self, condition: Any, what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"The driver's {what} took too long, or it ended; see {self._log.name}")
            time.sleep(0.5)


def _instant(settings: Any, table: Any, note: Any) -> float:
    return float(commit_metadata(settings, table, int(note["version"]))["timestamp"]) / 1000
