"""The pace of one continuous query: the session is fitted to each batch, and the limit of its batches to how long they take.

A session of a short run is fitted once, when it is opened. A continuous one meets five records in one batch and 200,000 in the next:
without generated code the first takes half the CPU, and the second a minute more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_jobs.io.session import fit_session
from spark_jobs.spec.batch_size import BatchSize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_jobs.jobs.run import Run

LEAST_BYTES = 4_000_000
CHUNKS_PER_BATCH = 4  # ledger files that bronze takes at once; what one look enters is cut into quarters of a batch


class Pace:
    """Belongs to one layer's run. `size`: how large its batches should be; None for a query that takes what there is."""

    def __init__(self, run: Run, query: str, size: BatchSize | None) -> None:
        self._run, self._query, self.size = run, query, size
        self._bytes = 0
        self._is_full: bool | None = None
        self.batches, self.seconds, self.gate_seconds = 0, 0.0, 0.0
        self.in_force = 0  # the limit that the running query was started with

    def begin_query(self) -> None:
        """From now on a query runs with the limit of the moment."""
        if self.size is not None:
            self.in_force = self._run.batch_limit[self._query] = self.size.limit

    @property
    def is_outgrown(self) -> bool:
        """True when the running query's limit is more than a factor of two away from the one that is wanted."""
        return self.size is not None and not self.in_force / 2 <= self.size.limit <= self.in_force * 2

    def fit(self, size: int, *frames: DataFrame, is_full: bool | None = None) -> None:
        """Before the batch's own work: it reads so many bytes, through these frames and the run's session."""
        self._bytes, self._is_full = size, is_full
        run = self._run
        run.small = size <= run.settings.small_mb * 1_000_000
        for session in (run.spark, *(frame.sparkSession for frame in frames)):
            fit_session(session, small=run.small)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Around a batch; one that fails says nothing about the pace."""
        began, self._bytes = time.monotonic(), 0
        yield
        seconds = time.monotonic() - began
        self.batches, self.seconds = self.batches + 1, self.seconds + seconds
        if self.size is not None:
            self.size.after(self._bytes, seconds, is_full=self._is_full)

    @contextmanager
    def gating(self) -> Iterator[None]:
        """Around a gate within a batch."""
        began = time.monotonic()
        yield
        self.gate_seconds += time.monotonic() - began

    def said(self) -> dict[str, float]:
        """What its batches took, and the gates within them."""
        return {"batches": self.batches, "seconds": round(self.seconds, 2), "gate_seconds": round(self.gate_seconds, 2)}


def sized(run: Run, least: int = LEAST_BYTES) -> BatchSize:
    """Batches towards the driver's trigger: at least what is worth its fixed cost, at most what ASSAY_BATCH_MB allows."""
    most = run.settings.batch_mb * 1_000_000
    return BatchSize(max(1.0, run.trigger.interval_s), min(least, most), most, run.settings.small_mb * 1_000_000)
