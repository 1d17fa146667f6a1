"""Running a streaming query of one layer under the job's trigger."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from spark_jobs.io.checkpoint import Checkpoint
from spark_jobs.jobs.run import Run
from spark_jobs.spec.tables import TableId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery


class LayerQuery:
    """A started query whose batches are handled by `process`; `wait` raises what `process` raised, not Spark's wrapping of it."""

    def __init__(
        self, run: Run, table: TableId, source: DataFrame, process: Callable[[DataFrame, int], None], checkpoint: Checkpoint
    ) -> None:
        self._fault: BaseException | None = None

        def guarded(batch: DataFrame, number: int) -> None:
            try:
                process(batch, number)
            except BaseException as fault:
                self._fault = fault
                raise

        self.query: StreamingQuery = (
            source.writeStream.queryName(str(table))
            .option("checkpointLocation", checkpoint.location)
            .trigger(**run.trigger.options())
            .foreachBatch(guarded)
            .start()
        )

    @property
    def is_running(self) -> bool:
        return bool(self.query.isActive)

    def end(self) -> None:
        """Stop at a batch boundary: the batch at work is finished first."""
        while self.query.isActive and self.query.status["isTriggerActive"]:
            time.sleep(0.1)
        self.query.stop()

    def wait(self) -> None:
        """Until the query ends (trigger `once`), fails, or is stopped."""
        from pyspark.errors import StreamingQueryException

        try:
            self.query.awaitTermination()
        except StreamingQueryException:
            if self._fault is not None:
                raise self._fault from None
            raise
        if self._fault is not None:
            raise self._fault
