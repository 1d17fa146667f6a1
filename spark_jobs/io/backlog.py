"""What a stream has taken from its source and what it has left there, followed from batch to batch without reading anything twice."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.io.delta_log import AddedFile, Position, added_files
from spark_jobs.io.lake import storage
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import FILES, TableId


@dataclass(frozen=True, slots=True)
class Amount:
    """Files, their bytes, and the rows in them as the log tells (None where it does not). `since`: when the oldest came, epoch seconds.

    Of the ledger: landed files and their landed bytes, as they were listed. Of any other table: its data files.
    """

    files: int = 0
    bytes: int = 0
    rows: int | None = 0
    since: float | None = None


class Backlog:
    """The data files of a source beyond a position. Each commit of the source is read once."""

    def __init__(self, settings: Settings, pipeline: Pipeline, source: TableId) -> None:
        self._settings, self._pipeline, self._source = settings, pipeline, source
        self._waiting: deque[tuple[int, int, Amount]] = deque()
        self._newest: AddedFile | None = None

    def take(self, start: Position, end: Position) -> tuple[Amount, Amount]:
        """What lies between two positions, and what lies beyond the second. Raises FileNotFoundError when commits have been removed."""
        after = start if self._newest is None else Position(self._newest.version, self._newest.index)
        for file in added_files(self._settings, self._source, after):
            self._waiting.append((file.version, file.index, self._measured(file)))
            self._newest = file
        taken = []
        while self._waiting and self._waiting[0][:2] <= (end.version, end.index):
            version, index, amount = self._waiting.popleft()
            if (version, index) > (start.version, start.index):
                taken.append(amount)
        return _sum(taken), _sum([amount for _, _, amount in self._waiting])

    def _measured(self, file: AddedFile) -> Amount:
        if self._source != FILES:
            return Amount(1, file.size, file.rows, file.written_at or None)
        fs, root = storage(self._settings.location(FILES))
        with fs.open(f"{root}/{file.path}", "rb") as piece:
            rows = pq.read_table(piece, columns=["pipeline", "state", "size", "listed_at"])
        mine = rows.filter((pc.field("pipeline") == self._pipeline.name) & (pc.field("state") == "listed"))
        listed_at = pc.min(mine["listed_at"]).as_py()
        return Amount(mine.num_rows, pc.sum(mine["size"]).as_py() or 0, mine.num_rows, listed_at.timestamp() if listed_at else None)


def _sum(amounts: list[Amount]) -> Amount:
    rows = [amount.rows for amount in amounts]
    return Amount(
        sum(amount.files for amount in amounts),
        sum(amount.bytes for amount in amounts),
        None if None in rows else sum(row for row in rows if row is not None),
        min((amount.since for amount in amounts if amount.since is not None), default=None),
    )
