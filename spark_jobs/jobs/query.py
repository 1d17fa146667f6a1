"""Running a streaming query of one layer under the job's trigger."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

from spark_jobs.io.checkpoint import Checkpoint
from spark_jobs.io.source_log import changed_in_place
from spark_jobs.jobs.run import Run
from spark_jobs.spec.errors import LeaseLost
from spark_jobs.spec.tables import TableId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

# Delta's two errors for a source that is not only appended to (DELTA_SOURCE_TABLE_IGNORE_CHANGES, DELTA_SOURCE_IGNORE_DELETE).
_CHANGED_IN_PLACE = re.compile(r"Detected (?:a data update|deleted data) \(for example (?P<operation>\w+).*?version (?P<version>\d+)", re.S)


class _EndAsked(Exception):
    """Keeps a batch from beginning after the end of its query was asked for."""


class LayerQuery:
    """A started query whose batches are handled by `process`; `wait` raises what `process` raised, not Spark's wrapping of it."""

    def __init__(
        self, run: Run, table: TableId, source: DataFrame, process: Callable[[DataFrame, int], None], checkpoint: Checkpoint
    ) -> None:
        self._fault: BaseException | None = None
        self._table, self._source = table, checkpoint.source

        self._progress = run.progress
        self._at_work = threading.Lock()
        self._is_ending = False

        def guarded(batch: DataFrame, number: int) -> None:
            with self._at_work:
                if self._is_ending:
                    raise _EndAsked
                self._progress.batch_begins(str(table), number)
                try:
                    with run.pace.timed() if run.pace else nullcontext():
                        process(batch, number)
                except BaseException as fault:
                    self._fault = fault
                    raise

        self._progress.starting(str(table), checkpoint)
        self.query: StreamingQuery = (
            source.writeStream.queryName(str(table))
            .option("checkpointLocation", checkpoint.location)
            .trigger(**run.trigger.options())
            .foreachBatch(guarded)
            .start()
        )
        self._progress.running(self.query)

    @property
    def is_running(self) -> bool:
        return bool(self.query.isActive)

    def end(self) -> None:
        """Stop at a batch boundary: the batch at work is finished first, and one that begins in this very moment writes nothing."""
        while self.query.isActive and self.query.status["isTriggerActive"]:
            time.sleep(0.1)
        with self._at_work:
            self._is_ending = True
        self.query.stop()

    def wait(self) -> None:
        """Until the query ends (trigger `once`), fails, or is stopped."""
        from pyspark.errors import StreamingQueryException

        try:
            self.query.awaitTermination()
        except StreamingQueryException as ended:
            self._progress.ended(self.query, self._fault or (None if self._is_ending else ended))
            if self._fault is not None:
                raise self._fault from None
            if self._is_ending:
                return
            if changed := _CHANGED_IN_PLACE.search(str(ended)):
                raise changed_in_place(str(self._table), self._source, changed["operation"], int(changed["version"])) from None
            if "CONCURRENT_STREAM_LOG_UPDATE" in str(ended):
                raise LeaseLost(
                    f"{self._table}: another run has gone on with the same checkpoint while this one was away. This run stops; nothing was "
                    f"written twice."
                ) from None
            raise
        self._progress.ended(self.query, self._fault)
        if self._fault is not None:
            raise self._fault
