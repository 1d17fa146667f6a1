"""The thread that turns what was heard of batches into rows, and writes and forwards them: those of about a second in one commit.

A fault of a place is said once, and rows that could not be written are tried again with the next.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from spark_jobs.io.newest_event import newest_event
from spark_jobs.io.progress_store import ProgressStore
from spark_jobs.io.query_state import QueryStates
from spark_jobs.jobs.metrics import Forwarder, forwarders
from spark_jobs.jobs.progress_rows import AT_REST, Row, Watched, place, row_of_batch, row_of_books, state_of

if TYPE_CHECKING:
    from spark_jobs.jobs.run import Run

MOST_WAITING = 10_000  # events and rows: an hour of batches each second, 20 MB
MOST_BOOKED = 1_000  # rows of books that wait for their batch's progress; one that never comes (a gate stopped it) is a row of its own
GATHER_S = 1.0  # rows of this long go into one commit
END_WITHIN_S = 30.0  # for emptying the queue at the process's end, whatever a disk or broker does


class ProgressWriter:
    """`put` never waits. `queries` gives those that run now, to be asked what they are doing."""

    def __init__(self, run: Run, queries: Callable[[], list[Watched]]) -> None:
        self._run, self._queries = run, queries
        self._store = ProgressStore(run.settings)
        self._states = QueryStates(run.settings)
        self._look_at = 0.0
        self._queue: queue.Queue[tuple[str, Any, Any] | None] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._booked: OrderedDict[tuple[str, str], Row] = OrderedDict()
        self._forwarders: list[Forwarder] = []
        self._unwritten: list[Row] = []
        self._said: set[str] = set()
        self._dropped = 0

    def open(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="progress-writer", daemon=True)
            self._thread.start()

    def put(self, kind: str, watched: Watched | None, content: Any) -> None:
        """`kind`: started, progress (content: Spark's JSON), terminated (content: the fault or None), booked (a row of `_ops.books`)."""
        try:
            self._queue.put_nowait((kind, watched, content))
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        """Write what is left. Returns within END_WITHIN_S, also when a disk or broker does not answer."""
        if self._thread is None:
            return
        with suppress(queue.Full):
            self._queue.put(None, timeout=END_WITHIN_S)
        self._thread.join(END_WITHIN_S)
        self._thread = None
        if self._dropped or self._unwritten:
            self._run.say(f"The progress of {self._dropped + len(self._unwritten):,} batches was not kept; their books are.")

    def _write(self) -> None:
        with self.said_if_it_fails("Metrics are not forwarded"):
            self._forwarders = forwarders(self._run)
        ending = False
        while not ending:
            items, ending = self._gather()
            rows: list[Row] = []
            for kind, watched, content in items:
                with self.said_if_it_fails("The progress of a batch is not known"):
                    rows += self._turned(kind, watched, content)
            while ending and self._booked:
                rows.append(self._of_books())
            self._append(rows)
        for forwarder in self._forwarders:
            with self.said_if_it_fails(forwarder.complaint):
                forwarder.close()

    def _gather(self) -> tuple[list[tuple[str, Any, Any]], bool]:
        """What came within GATHER_S of the first of it; True when no more will come."""
        items: list[tuple[str, Any, Any]] = []
        try:
            item = self._queue.get(timeout=self._states.every_s)
        except queue.Empty:
            self._look_at_queries()
            return items, False
        self._look_at_queries()
        until = time.monotonic() + GATHER_S
        while item is not None:
            items.append(item)
            try:
                item = self._queue.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return items, False
        return items, True

    def _turned(self, kind: str, watched: Watched | None, content: Any) -> list[Row]:
        """The rows that an event makes."""
        if kind == "booked":
            self._booked[content["table"], content["batch_id"]] = content
            self._forward(kind, content)
            if len(self._booked) <= MOST_BOOKED:
                return []
            return [self._of_books()]
        if watched is None:
            return []
        if kind != "progress":
            if kind == "terminated":
                self._tell_state(watched.table, {**AT_REST, "message": "Ended" if content is None else f"Failed: {type(content).__name__}"})
            error = f"{type(content).__name__}: {content}" if content is not None else None
            self._forward(kind, self._complete({"table": watched.table, "error": error, "at": self._run.clock()}))
            return []
        said = json.loads(content)
        number = int(said["batchId"])
        if number <= watched.heard:
            return []
        watched.heard = number
        batch_id = watched.checkpoint.batch_id(number)
        booked = [row for (_, batch), row in self._booked.items() if batch == batch_id and self._is_of(watched, row)]
        for row in booked:
            del self._booked[row["table"], batch_id]
        return [self._finished(row_of_batch(watched, said, booked, self._run.clock()))]

    def _of_books(self) -> Row:
        """The oldest row of books whose batch no stream has told of."""
        return self._finished(row_of_books(self._booked.popitem(last=False)[1]))

    def _finished(self, row: Row) -> Row:
        """The row complete, with the time of the newest event that its table shows now, and forwarded."""
        shows = {"silver": row["target_version"], "gold": row["source_version"]}.get(row["table"].partition(".")[0])
        newest = None
        if shows is not None and shows >= 0:
            with suppress(Exception):  # a version that is gone: the row is worth keeping without it
                newest = newest_event(self._run.settings, self._run.pipeline, shows)
        row = self._complete({**row, "newest_event_at": newest})
        self._forward("progress", row)  # at once, so that a query's events stay in order
        return row

    def _look_at_queries(self) -> None:
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + self._states.every_s
        for watched in self._queries():
            if watched.query is not None:
                with self.said_if_it_fails("What the queries are doing cannot be told"):
                    self._tell_state(watched.table, state_of(watched.query))

    def _tell_state(self, table: str, state: Row) -> None:
        self._states.write(table, {**state, "run_id": self._run.run_id, **place()})

    def _is_of(self, watched: Watched, booked: Row) -> bool:
        return bool(
            booked["table"] == watched.table or (booked["layer"] == "gold" and watched.table == str(self._run.pipeline.gold_stream))
        )

    def _complete(self, row: Row) -> Row:
        mode = "backfill" if self._run.backfill_id else self._run.mode
        return {"pipeline": self._run.pipeline.name, "run_id": self._run.run_id, "mode": mode, **place(), **row}

    def _append(self, rows: list[Row]) -> None:
        self._unwritten += rows
        self._dropped += max(0, len(self._unwritten) - MOST_WAITING)
        del self._unwritten[:-MOST_WAITING]
        with self.said_if_it_fails("The progress of batches cannot be written; it is tried again"):
            self._store.append(self._unwritten)
            self._unwritten = []

    def _forward(self, kind: str, event: Row) -> None:
        for forwarder in self._forwarders:
            with self.said_if_it_fails(forwarder.complaint):
                forwarder.send(kind, event)

    @contextmanager
    def said_if_it_fails(self, complaint: str) -> Iterator[None]:
        try:
            yield
        except Exception as fault:  # whatever it is, the batches go on
            if complaint not in self._said:
                self._said.add(complaint)
                self._run.say(f"{complaint}: {type(fault).__name__}: {(str(fault).splitlines() or [''])[0]}")
