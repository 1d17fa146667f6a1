"""Keeping the progress of every batch: in `_ops.progress`, and where configured in Kafka and for Prometheus.

None of it may fail or delay a batch. What Spark tells is put into a bounded queue; one thread turns it into rows, adds what the books
and the source's log know, and writes them, those of about a second in one commit. A fault of a place is said once, and rows that could
not be written are tried again with the next. At the process's end the queue is emptied, so a normal end loses nothing. A SIGKILL loses
the rows of its last seconds, which are kept nowhere else; the books of those batches are written before their checkpoint and are not
lost, so every record stays accounted for.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from spark_jobs.io.backlog import Backlog
from spark_jobs.io.checkpoint import Checkpoint
from spark_jobs.io.newest_event import newest_event
from spark_jobs.io.progress_store import ProgressStore
from spark_jobs.jobs.listener import Listener
from spark_jobs.jobs.metrics import Forwarder, forwarders
from spark_jobs.jobs.progress_rows import Row, Watched, place, row_of_batch, row_of_books

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from spark_jobs.jobs.run import Run

MOST_WAITING = 10_000  # events and rows: an hour of batches each second, 20 MB
GATHER_S = 1.0  # rows of this long go into one commit
MOST_BOOKED = 1_000  # rows of books that wait for their batch's progress; one that never comes (a gate stopped it) is a row of its own
HEARD_WITHIN_S = 10.0  # after a query's end, until what it did last is asked of the query itself
END_WITHIN_S = 30.0  # for emptying the queue at the process's end, whatever a disk or broker does


class Progress:
    """The progress of all queries and batches of one run. `starting` and `ended` frame a query; `close` ends it all."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._store = ProgressStore(run.settings)
        self._queue: queue.Queue[tuple[str, Any, Any] | None] = queue.Queue(MOST_WAITING)
        self._watched: dict[str, Watched] = {}  # by the query's run
        self._starting: dict[str, Watched] = {}  # by the query's name
        self._over: dict[str, threading.Event] = {}
        self._booked: OrderedDict[tuple[str, str], Row] = OrderedDict()
        self._listener: Listener | None = None
        self._writer: threading.Thread | None = None
        self._forwarders: list[Forwarder] = []
        self._unwritten: list[Row] = []
        self._said: set[str] = set()
        self._dropped = 0

    # --- called by the job ---

    def starting(self, table: str, checkpoint: Checkpoint) -> None:
        """Before a query is started: what Spark tells of it is kept from now on."""
        if not self._run.settings.progress:
            return
        with self._said_if_it_fails("The progress of this run is not kept"):
            backlog = Backlog(self._run.settings, self._run.pipeline, checkpoint.source)
            self._starting[table] = Watched(table, checkpoint, backlog)
            self._open()
            if self._listener is None:
                self._listener = Listener(self._run.spark, self)

    def batch_begins(self, table: str, number: int) -> None:
        """The bound that is in force for the batch is the one at its beginning."""
        for watched in list(self._watched.values()):
            if watched.table == table:
                watched.limits[number] = self._run.batch_limit.get(table)

    def booked(self, row: Row) -> None:
        """A batch's row of `_ops.books` was written."""
        if self._run.settings.progress:
            self._open()
            self._put("booked", None, dict(row))

    def ended(self, query: StreamingQuery, fault: BaseException | None = None) -> None:
        """After a query's end: waits a moment until the last of its batches was heard of."""
        query_run = str(query.runId)
        watched = self._watched.get(query_run)
        if watched is None:
            return
        if not self._over[query_run].wait(HEARD_WITHIN_S):
            with suppress(Exception):
                for one in query.recentProgress:
                    self._put("progress", watched, one.json)
        self._put("terminated", watched, fault)
        del self._watched[query_run], self._over[query_run]
        if not self._watched and self._listener is not None:
            self._listener.remove()
            self._listener = None

    def close(self) -> None:
        """Write what is left. Returns within END_WITHIN_S, also when a disk or broker does not answer."""
        if self._listener is not None:
            self._listener.remove()
            self._listener = None
        if self._writer is None:
            return
        with suppress(queue.Full):
            self._queue.put(None, timeout=END_WITHIN_S)
        self._writer.join(END_WITHIN_S)
        self._writer = None
        if self._dropped or self._unwritten:
            self._run.say(f"The progress of {self._dropped + len(self._unwritten):,} batches was not kept; their books are.")

    # --- called by Spark's callbacks ---

    def on_started(self, query_run: str, name: str) -> None:
        watched = self._starting.pop(name, None)
        if watched is not None:  # else a query of another run in this session
            watched.query_run = query_run
            self._over[query_run] = threading.Event()
            self._watched[query_run] = watched
            self._put("started", watched, None)

    def on_progress(self, text: str) -> None:
        for query_run, watched in list(self._watched.items()):
            if query_run in text:
                self._put("progress", watched, text)

    def on_terminated(self, query_run: str) -> None:
        if query_run in self._over:
            self._over[query_run].set()

    # --- the writer's thread ---

    def _open(self) -> None:
        if self._writer is None:
            self._writer = threading.Thread(target=self._write, name="progress-writer", daemon=True)
            self._writer.start()

    def _put(self, kind: str, watched: Watched | None, content: Any) -> None:
        try:
            self._queue.put_nowait((kind, watched, content))
        except queue.Full:
            self._dropped += 1

    def _write(self) -> None:
        with self._said_if_it_fails("Metrics are not forwarded"):
            self._forwarders = forwarders(self._run)
        ending = False
        while not ending:
            items, ending = self._gather()
            rows: list[Row] = []
            for kind, watched, content in items:
                with self._said_if_it_fails("The progress of a batch is not known"):
                    rows += self._turned(kind, watched, content)
            while ending and self._booked:
                rows.append(self._of_books())
            self._append(rows)
        for forwarder in self._forwarders:
            with self._said_if_it_fails(forwarder.complaint):
                forwarder.close()

    def _gather(self) -> tuple[list[tuple[str, Any, Any]], bool]:
        """What came within GATHER_S of the first of it; True when no more will come."""
        items = []
        item = self._queue.get()
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
        with self._said_if_it_fails("The progress of batches cannot be written; it is tried again"):
            self._store.append(self._unwritten)
            self._unwritten = []

    def _forward(self, kind: str, event: Row) -> None:
        for forwarder in self._forwarders:
            with self._said_if_it_fails(forwarder.complaint):
                forwarder.send(kind, event)

    @contextmanager
    def _said_if_it_fails(self, complaint: str) -> Iterator[None]:
        try:
            yield
        except Exception as fault:  # whatever it is, the batches go on
            if complaint not in self._said:
                self._said.add(complaint)
                self._run.say(f"{complaint}: {type(fault).__name__}: {(str(fault).splitlines() or [''])[0]}")
