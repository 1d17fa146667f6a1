"""A continuous driver on the shared session, in a thread of the test: what it says, and waiting for what it does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from spark_jobs.io.relay import ask_to_end
from spark_jobs.jobs.query_events import newest_events
from spark_jobs.jobs.stream import run_stream
from tests.builders.stack import Stack

PATIENCE_S = 240


class Driver(threading.Thread):
    """`with Driver(stack, "stream-1") as driver`: runs until it is asked to end at the latest at the end of the block."""

    LIFETIME_S = 1800.0

    def __init__(self, stack: Stack, run_id: str) -> None:
        super().__init__(name=run_id, daemon=True)
        self.stack, self.run_id = stack, run_id
        self.answer: dict[str, Any] = {}
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            self.answer = run_stream(self.stack.start(self.run_id), lifetime_s=self.LIFETIME_S)
        except BaseException as fault:
            self.fault = fault

    def __enter__(self) -> Driver:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_alive():
            ask_to_end(self.stack.settings, self.stack.pipeline, "the test")
        self.over()

    def over(self) -> dict[str, Any]:
        """Its answer, once it has ended by itself."""
        self.join(PATIENCE_S)
        assert not self.is_alive(), f"{self.run_id} has not ended"
        if self.fault is not None:
            raise self.fault
        return self.answer

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for what the driver should do; fails when it has ended or takes too long."""
        deadline = time.monotonic() + PATIENCE_S
        while not _now(condition):
            assert self.is_alive(), f"{self.run_id} ended before {what}: {self.fault or self.answer}"
            assert time.monotonic() < deadline, f"{self.run_id}: no {what}"
            time.sleep(0.2)


def _now(condition: Callable[[], bool]) -> bool:
    with suppress(OSError):  # a file that a commit has just replaced
        return condition()
    return False


def events_of(stack: Stack, table: str) -> list[str]:
    """What happened to a query (or, with "", to the drivers), oldest first."""
    return [row["event"] for row in reversed(newest_events(stack.settings, stack.pipeline, table=table))]
