"""Who still needs which version of a table: what maintenance must leave alone, and whom it names when it waits.

A consumer that streams a table needs every file that a commit has added from its position on, also one that compaction has replaced since:
a stream reads what its commits added, not what the table holds now. One that names a version needs that version as a whole.
A stopped batch needs nothing of its own: its source is not read yet, so the position of its query lies before it. A held batch neither: its
rows are in `<table>_held` as it is now. What cannot be told counts as needing everything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from spark_jobs.io.checkpoint import Checkpoint
from spark_jobs.io.checkpoint_files import OFFSET_LINE
from spark_jobs.io.delta_log import START, Position, added_files
from spark_jobs.io.lake import lake_table, storage
from spark_jobs.io.ops import Ops
from spark_jobs.io.work import bronze_checkpoint, gold_checkpoint, named_silver_version, silver_checkpoint
from spark_jobs.spec.errors import CheckpointDamaged
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import CONSUMERS, FILES, TableId


@dataclass(frozen=True, slots=True)
class Need:
    """What one consumer must still be able to read: commits from `position` on, or the table at version `snapshot`, or both."""

    consumer: str  # as a person knows it: "the stream silver.cloudtrail_events", "the consumer siem"
    table: TableId
    position: Position | None = None
    snapshot: int | None = None
    fault: str = ""  # why it counts as needing everything

    @property
    def version(self) -> int:
        """The oldest version that it needs."""
        reached = [] if self.position is None else [self.position.version]
        return min([*reached, *([] if self.snapshot is None else [self.snapshot])])

    @property
    def who(self) -> str:
        """The consumer, with what is wrong with it."""
        return f"{self.consumer} ({self.fault})" if self.fault else self.consumer


def needs_of(settings: Settings, pipelines: Iterable[Pipeline], table: TableId) -> list[Need]:
    """What our own queries and the registered consumers still need of a table, the slowest first."""
    if lake_table(settings, table) is None:
        return []
    found = [need for pipeline in pipelines for need in _own_needs(settings, pipeline, table)]
    found += [registered_need(settings, row) for row in registered(settings) if row["table"] == str(table)]
    return sorted(found, key=lambda need: (need.version, need.consumer))


def needed_files(settings: Settings, need: Need) -> set[str] | None:
    """The data files (paths below the table's folder) that the consumer may still read; None when that cannot be told any more."""
    files: set[str] = set()
    try:
        if need.snapshot is not None:
            files |= _files_at(settings, need.table, need.snapshot)
        if need.position is not None:
            # The whole of the version it is in: a stream that is started again looks at that commit from its beginning.
            files |= {file.path for file in added_files(settings, need.table, Position(need.position.version, -1))}
    except Exception:  # a commit file is gone, whichever way the reader says so
        return None
    return files


def registered(settings: Settings) -> list[dict[str, object]]:
    """The newest row of each consumer that is registered and was not released, by name."""
    rows = sorted(Ops(settings).read(CONSUMERS).to_pylist(), key=lambda row: row["at"])
    newest = {row["name"]: row for row in rows}
    return [newest[name] for name in sorted(newest) if newest[name]["state"] == "registered"]


def registered_need(settings: Settings, row: dict[str, object]) -> Need:
    """What a registered consumer needs: the version it was pinned to, or from where its checkpoint says it is now."""
    consumer, table = f"the consumer {row['name']}", TableId.parse(str(row["table"]))
    if row["version"] is not None:
        return Need(consumer, table, snapshot=int(str(row["version"])))
    found = lake_table(settings, table)
    try:
        position, snapshot = read_position(str(row["checkpoint"]), "" if found is None else str(found.metadata().id))
    except Exception as fault:  # a folder that is not there, no permission, not a checkpoint: whatever it is, its position is not known
        text = " ".join(str(fault).split())[:200] or type(fault).__name__
        return Need(consumer, table, START, fault=f"its checkpoint {row['checkpoint']} cannot be read, so it needs everything: {text}")
    return Need(consumer, table, position, snapshot)


def read_position(checkpoint: str, table_id: str) -> tuple[Position, int | None]:
    """How far a Spark stream has read the table with this id, counting finished batches only; and the version whose snapshot it reads.

    The second is set while it is still within the table's first snapshot. Raises ValueError when the folder is no checkpoint of a
    query that reads the table, OSError when it cannot be read.
    """
    fs, folder = storage(checkpoint.replace("s3a://", "s3://", 1))
    committed = _numbers(fs, f"{folder}/commits")
    begun = _numbers(fs, f"{folder}/offsets")
    if not begun:
        raise ValueError("it holds no offsets")
    # The batch after the last finished one is made again from where that one ended; its own offset says only how far it was to go.
    last = max(committed, default=None)
    lines = fs.cat_file(f"{folder}/offsets/{max(begun) if last is None else last}").decode().splitlines()
    offsets = [json.loads(line) for line in lines[OFFSET_LINE:] if line.startswith("{")]
    mine = [offset for offset in offsets if offset.get("reservoirId") == table_id]
    if not mine:
        raise ValueError("it reads another table")
    snapshots = [int(offset["reservoirVersion"]) for offset in mine if offset.get("isStartingVersion")]
    if last is None and len(snapshots) < len(mine):
        return START, None  # it has begun and finished nothing: where it began is in no file
    position = min((Position.of_offset(json.dumps(offset)) for offset in mine), key=lambda one: (one.version, one.index))
    return position, min(snapshots, default=None)


def _own_needs(settings: Settings, pipeline: Pipeline, table: TableId) -> Iterator[Need]:
    if table == FILES:
        yield _stream_need(bronze_checkpoint(settings, pipeline), pipeline.bronze_table, FILES)
    elif table == pipeline.bronze_table:
        yield _stream_need(silver_checkpoint(settings, pipeline), pipeline.silver_table, table)
    elif table == pipeline.silver_table:
        yield _stream_need(gold_checkpoint(settings, pipeline), pipeline.gold_stream, table)
        for gold in pipeline.gold_tables:
            named = named_silver_version(settings, pipeline, gold)
            # It goes on from the commits after that version, and an audit computes it again from silver as it was then.
            # One that was never written is computed from silver as it is, whatever its log still tells.
            if named is not None:
                yield Need(f"{gold} and its audit", table, Position(named + 1, -1), named)


def _stream_need(checkpoint: Checkpoint, query: TableId, source: TableId) -> Need:
    try:
        return Need(f"the stream {query}", source, checkpoint.position())
    except CheckpointDamaged:
        return Need(f"the stream {query}", source, START, fault="its checkpoint is damaged, so it needs everything")


def _files_at(settings: Settings, table: TableId, version: int) -> set[str]:
    found = lake_table(settings, table, version)
    if found is None:
        raise FileNotFoundError(str(table))
    return set(live_files(found))


def live_files(table: object) -> list[str]:
    """The data files of an opened table, as paths below its folder."""
    import pyarrow as pa

    return [str(path) for path in pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()]  # type: ignore[attr-defined]


def _numbers(fs: object, folder: str) -> list[int]:
    exists: Callable[[str], bool] = fs.exists  # type: ignore[attr-defined]
    if not exists(folder):
        return []
    names: Sequence[object] = fs.ls(folder, detail=False)  # type: ignore[attr-defined]
    return [int(name) for name in (str(path).rsplit("/", 1)[-1] for path in names) if name.isdigit()]
