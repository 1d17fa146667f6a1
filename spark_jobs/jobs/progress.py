"""Keeping the progress of every batch: in `_ops.progress`, and where configured in Kafka and for Prometheus.

None of it may fail or delay a batch. What Spark tells is put into a bounded queue; one thread (`progress_writer.py`) does the rest. At
the process's end the queue is emptied, so a normal end loses nothing. A SIGKILL loses the rows of its last seconds, which are kept
nowhere else; the books of those batches are written before their checkpoint and are not lost, so every record stays accounted for.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from spark_jobs.io.backlog import Backlog
from spark_jobs.io.checkpoint import Checkpoint
from spark_jobs.jobs.listener import Listener
from spark_jobs.jobs.progress_rows import Row, Watched
from spark_jobs.jobs.progress_writer import ProgressWriter

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from spark_jobs.jobs.run import Run

HEARD_WITHIN_S = 10.0  # after a query's end, until what it did last is asked of the query itself


class Progress:
    """The progress of all queries and batches of one run. `starting` and `ended` frame a query; `close` ends it all."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._watched: dict[str, Watched] = {}  # by the query's run
        self._starting: dict[str, Watched] = {}  # by the query's name
        self._over: dict[str, threading.Event] = {}
        self._listener: Listener | None = None
        self._writer = ProgressWriter(run, lambda: list(self._watched.values()))

    # --- called by the job ---

    def starting(self, table: str, checkpoint: Checkpoint) -> None:
        """Before a query is started: what Spark tells of it is kept from now on."""
        if not self._run.settings.progress:
            return
        with self._writer.said_if_it_fails("The progress of this run is not kept"):
            backlog = Backlog(self._run.settings, self._run.pipeline, checkpoint.source)
            self._starting[table] = Watched(table, checkpoint, backlog)
            self._writer.open()
            if self._listener is None:
                self._listener = Listener(self._run.spark, self)

    def running(self, query: StreamingQuery) -> None:
        """The query was started: from now on it is asked what it is doing."""
        if (watched := self._watched.get(str(query.runId))) is not None:
            watched.query = query

    def batch_begins(self, table: str, number: int) -> None:
        """The bound that is in force for the batch is the one at its beginning."""
        for watched in list(self._watched.values()):
            if watched.table == table:
                watched.limits[number] = self._run.batch_limit.get(table)

    def booked(self, row: Row) -> None:
        """A batch's row of `_ops.books` was written."""
        if self._run.settings.progress:
            self._writer.open()
            self._writer.put("booked", None, dict(row))

    def ended(self, query: StreamingQuery, fault: BaseException | None = None) -> None:
        """After a query's end: waits a moment until the last of its batches was heard of."""
        query_run = str(query.runId)
        watched = self._watched.get(query_run)
        if watched is None:
            return
        if not self._over[query_run].wait(HEARD_WITHIN_S):
            with suppress(Exception):
                for one in query.recentProgress:
                    self._writer.put("progress", watched, one.json)
        self._writer.put("terminated", watched, fault)
        del self._watched[query_run], self._over[query_run]
        if not self._watched and self._listener is not None:
            self._listener.remove()
            self._listener = None

    def close(self) -> None:
        """Write what is left. Returns within END_WITHIN_S, also when a disk or broker does not answer."""
        if self._listener is not None:
            self._listener.remove()
            self._listener = None
        self._writer.close()

    # --- called by Spark's callbacks ---

    def on_started(self, query_run: str, name: str) -> None:
        watched = self._starting.pop(name, None)
        if watched is not None:  # else a query of another run in this session
            watched.query_run = query_run
            self._over[query_run] = threading.Event()
            self._watched[query_run] = watched
            self._writer.put("started", watched, None)

    def on_progress(self, text: str) -> None:
        for query_run, watched in list(self._watched.items()):
            if query_run in text:
                self._writer.put("progress", watched, text)

    def on_terminated(self, query_run: str) -> None:
        if query_run in self._over:
            self._over[query_run].set()
