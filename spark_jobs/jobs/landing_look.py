"""The landing look of a continuous driver: what `discover` does for an hourly run, every few seconds inside the driver."""

from __future__ import annotations

import threading
import time
from typing import Any

from spark_jobs.io.ledger import Discovered, discover
from spark_jobs.io.ledger_memory import LedgerMemory
from spark_jobs.jobs.ending import Ending
from spark_jobs.jobs.pace import CHUNKS_PER_BATCH
from spark_jobs.jobs.run import Run
from spark_jobs.spec.settings import Settings

WHOLE_EVERY_S = 60.0


class LandingLook(threading.Thread):
    """Enters what is new in the landing folder into the ledger. The first look is made by `first_look`, and its faults are raised there."""

    def __init__(self, run: Run, ending: Ending, every_s: float) -> None:
        super().__init__(name=f"{run.pipeline.name}-landing", daemon=True)
        self._run, self._ending, self._every_s = run, ending, every_s
        self._said: set[str] = set()
        self._memory = LedgerMemory()
        self._whole_at = 0.0

    def first_look(self) -> None:
        self._look()

    def run(self) -> None:
        next_at = time.monotonic() + self._every_s
        while not self._ending.wait(next_at - time.monotonic()):
            next_at = max(next_at + self._every_s, time.monotonic())  # a look that took longer is not made up for
            try:
                self._look()
            except Exception as fault:  # a folder that is away for a while, a ledger that many write: the next look is soon
                self._say_once(
                    f"The landing folder was not looked at: {str(fault).splitlines()[0] if str(fault) else type(fault).__name__}"
                )

    def _look(self) -> Discovered:
        run = self._run
        is_whole = time.monotonic() >= self._whole_at
        if is_whole:  # is a full listing due, may a failed file be read again: no matter of seconds
            self._whole_at = time.monotonic() + WHOLE_EVERY_S
        how: dict[str, Any] = {} if is_whole else {"sweep": False, "healed": False}
        found = discover(self._cut(), run.pipeline, run.run_id, run.clock(), memory=self._memory, **how)
        for refused in found.refused:
            self._say_once(f"{refused} may not be listed: permission denied. What lies there waits; grant this user read access to it.")
        if found.new or found.readmitted:
            run.say(f"Landed: {found.new} new files, {found.readmitted} to be read again.")
        return found

    def _cut(self) -> Settings:
        """With pieces of the ledger of which several make a batch, as large as bronze's batches are at the moment."""
        settings = self._run.settings
        limit = self._run.batch_limit.get(str(self._run.pipeline.bronze_table), settings.batch_mb * 1_000_000)
        pieces = {
            "batch_mb": max(1, limit // 1_000_000 // CHUNKS_PER_BATCH),
            "batch_files": max(1, settings.batch_files // CHUNKS_PER_BATCH),
        }
        return settings.model_copy(update=pieces)

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._run.say(sentence)
