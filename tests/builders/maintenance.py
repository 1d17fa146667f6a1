"""Maintenance on a stack: once, or in a second thread that never rests while hourly runs go on beside it."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from spark_jobs.jobs.maintain import maintain
from spark_jobs.jobs.run import Run
from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.corpus import FOLDER, good_file
from tests.builders.increments import published
from tests.builders.stack import Stack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATER = timedelta(days=8)  # when today is a closed day, and what was replaced today may go
TOMORROW = timedelta(hours=25)  # when today is a closed day, and nothing is old


def maintained(stack: Stack, after: timedelta = LATER) -> dict[str, dict[str, Any]]:
    """Maintain as if so much later; the result by table."""
    run = Run(stack.settings, stack.pipeline, f"maintenance-{time.time_ns()}", lambda: datetime.now(UTC) + after, small=True)
    assert stack._spark is not None
    run._session.append(stack._spark)
    return {row["table"]: row for row in maintain(run)["tables"]}


class WithoutRest(threading.Thread):
    """`with WithoutRest(stack) as beside`: maintains until the block ends. `done` has the results; what it raised is raised at the end."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(daemon=True)
        self.done: list[dict[str, dict[str, Any]]] = []
        self._fault: BaseException | None = None
        self._stack, self._ended = stack, threading.Event()

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                self.done.append(maintained(self._stack, TOMORROW))
        except BaseException as fault:
            self._fault = fault

    def joined(self) -> list[str]:
        """The tables of which days were joined, once for each time."""
        return [row["table"] for tables in self.done for row in tables.values() if row["days_compacted"]]

    def __enter__(self) -> WithoutRest:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        self.join()
        if self._fault is not None:
            raise self._fault


def land_hour(hour: int, *stacks: Stack) -> None:
    """Three new events and one that came before, each in a file, to the same day of events and the same day of arrival."""
    for number in (3 * hour, 3 * hour + 1, 3 * hour + 2, max(0, 3 * hour - 2)):
        for stack in stacks:
            stack.land(f"{FOLDER}/{hour}-{number:03}.json.gz", good_file(number))


def run_hours_beside(hours: int, tmp_path: Path, spark: SparkSession) -> WithoutRest:
    """Hourly runs beside maintenance that never rests end as the same hours in quiet. Returns what maintenance did meanwhile.

    Each hour brings new events and a repeated one to the very partitions that are being joined at that moment.
    """
    busy, calm = (Stack(tmp_path / name, spark, batch_files=2, gates=False) for name in ("busy", "calm"))
    with WithoutRest(busy) as beside:
        for hour in range(hours):
            land_hour(hour, busy, calm)
            busy.discover()
            assert busy.run() is None
    assert_every_record_accounted_for(busy)
    calm.discover()
    assert calm.run() is None
    assert published(busy) == published(calm)
    return beside
