"""How far a query has come in its source, told by its tables and not by its checkpoint: which data files were taken, wholly or in part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.io.delta_log import AddedFile, Position, added_files, latest_version
from spark_jobs.io.generation import NOTHING_TAKEN
from spark_jobs.io.lake import lake_table, rows_of, storage
from spark_jobs.io.ops import Ops
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import FILE_OUTCOMES, FILES, SIDES, TableId


@dataclass(frozen=True, slots=True)
class Begin:
    """Where a query goes on so that no row of its source is lost. `taken_until`: up to this version of the source some of the rows ahead
    were taken already, and must be passed over; NOTHING_TAKEN when there are none. `is_snapshot`: with all rows that the source has at the
    position's version, whichever commit brought them."""

    position: Position
    taken_until: int = NOTHING_TAKEN
    is_snapshot: bool = False


# For each of the files: how many rows it has for the query, and how many of them were taken.
Count = Callable[[Sequence[AddedFile]], Sequence[tuple[int, int]]]


def begin_after(settings: Settings, source: TableId, since: int, count: Count, *, fallback: Position | None = None) -> Begin:
    """The place in the source before its first row that was not taken, looked for from version `since` on.

    `fallback`: a place that is known to be reached, for a log that no longer has the commits from `since` to there. Raises
    FileNotFoundError when a commit file of the source after that was cleaned up.
    """
    try:
        files = list(added_files(settings, source, Position(since, -1)))
    except FileNotFoundError:
        if fallback is None or fallback.index >= 0:
            raise
        files = list(added_files(settings, source, fallback))
    counts = count(files)
    latest = latest_version(settings, source)
    position, until, seen = None, NOTHING_TAKEN, (-1, -1)
    for file, (rows, taken) in zip(files, counts, strict=True):
        index = seen[1] + 1 if file.version == seen[0] else 0
        seen = (file.version, index)
        if position is None and taken < rows:
            position = Position(file.version, index - 1)
        if position is not None and taken:
            until = file.version
    return Begin(position or Position(0 if latest is None else latest + 1, -1), until)


def whole_of(settings: Settings, source: TableId) -> Begin:
    """All rows that the source has now, those that were taken among them, then what comes after."""
    latest = latest_version(settings, source) or 0
    return Begin(Position(latest, -1), latest, is_snapshot=True)


def records_taken(settings: Settings, pipeline: Pipeline, is_void: Callable[[str], bool]) -> Count:
    """Of bronze's data files: the rows whose `_rid` is in silver or beside it (quarantine, duplicates, held). Rows of void batches do not
    count: they are read again."""

    def count(files: Sequence[AddedFile]) -> list[tuple[int, int]]:
        fs, root = storage(settings.location(pipeline.bronze_table))
        columns = []
        for file in files:
            with fs.open(f"{root}/{file.path}", "rb") as opened:
                columns.append(pq.read_table(opened, columns=["_rid"])["_rid"].combine_chunks())
        if not columns:
            return []
        rids = pa.concat_arrays([column.cast(pa.string()) for column in columns])
        is_taken = np.zeros(len(rids), dtype=bool)
        for known in _known_rids(settings, pipeline, is_void):
            places = pc.drop_null(pc.index_in(known, value_set=rids))
            is_taken[places.to_numpy()] = True
        ends = np.cumsum([0, *map(len, columns)])
        return [(int(high - low), int(is_taken[low:high].sum())) for low, high in pairwise(ends)]

    return count


def files_taken(settings: Settings, pipeline: Pipeline, is_void: Callable[[str], bool]) -> Count:
    """Of the ledger's data files: the landed files that were read (see `FilesRead`)."""

    def count(files: Sequence[AddedFile]) -> list[tuple[int, int]]:
        fs, root = storage(settings.location(FILES))
        listed: list[list[tuple[str, int]]] = []
        for file in files:
            with fs.open(f"{root}/{file.path}", "rb") as opened:
                rows = pq.read_table(opened, columns=["pipeline", "state", "file_id", "attempt"])
            mine = rows.filter((pc.field("pipeline") == pipeline.name) & (pc.field("state") == "listed"))
            listed.append(list(zip(mine["file_id"].to_pylist(), mine["attempt"].to_pylist(), strict=True)))
        read = FilesRead(Ops(settings), pipeline, {name for one in listed for name, _ in one}, is_void)
        return [(len(one), sum(read.has(name, attempt) for name, attempt in one)) for one in listed]

    return count


class FilesRead:
    """Which of these versions of landed files were read by a batch that counts."""

    def __init__(self, ops: Ops, pipeline: Pipeline, file_ids: Iterable[str], is_void: Callable[[str], bool]) -> None:
        columns = ["file_id", "attempt", "outcome", "batch_id"]
        mine = (pc.field("pipeline") == pipeline.name) & pc.field("file_id").isin(pa.array(sorted(file_ids), pa.string()))
        self._attempts: dict[str, int] = {}
        self._ok: set[str] = set()
        for row in ops.read(FILE_OUTCOMES, columns, mine).to_pylist():
            if is_void(row["batch_id"]):
                continue
            self._attempts[row["file_id"]] = max(row["attempt"], self._attempts.get(row["file_id"], 0))
            if row["outcome"] == "ok":
                self._ok.add(row["file_id"])

    def has(self, file_id: str, attempt: int) -> bool:
        """A file that was read well is not read again; one that failed is, when it was entered again since."""
        return file_id in self._ok or attempt <= self._attempts.get(file_id, -1)


def batches_beside(settings: Settings, table: TableId) -> set[str]:
    """The batch ids of all rows in the table's side tables."""
    found: set[str] = set()
    for side in map(table.side, SIDES):
        opened = lake_table(settings, side)
        if opened is not None:
            for batch in rows_of(opened).to_batches(columns=["_batch_id"]):
                found.update(pc.unique(batch["_batch_id"].cast(pa.string())).to_pylist())
    return found


def _known_rids(settings: Settings, pipeline: Pipeline, is_void: Callable[[str], bool]) -> Iterator[pa.Array]:
    table = pipeline.silver_table
    opened = lake_table(settings, table)
    if opened is not None:
        for batch in rows_of(opened).to_batches(columns=["_rid"]):
            yield batch["_rid"].cast(pa.string())
    for side in map(table.side, SIDES):
        opened = lake_table(settings, side)
        if opened is not None:
            for batch in rows_of(opened).to_batches(columns=["_rid", "_batch_id"]):
                ids = pc.unique(batch["_batch_id"].cast(pa.string()))
                void = pa.array([name for name in ids.to_pylist() if name is not None and is_void(name)], pa.string())
                yield batch.filter(pc.invert(pc.is_in(batch["_batch_id"].cast(pa.string()), value_set=void)))["_rid"].cast(pa.string())
