"""Is there anything to do? Answered from logs and checkpoints, without a JVM and without reading history."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.io.checkpoint import Checkpoint
from spark_jobs.io.delta_log import AddedFile, Position, RestoredToUnknown, added_files, removed_files, versions_in_force
from spark_jobs.io.lake import commit_metadata, lake_table, storage
from spark_jobs.io.ops import Ops
from spark_jobs.spec.errors import CheckpointDamaged
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import BOOKS, DECISIONS, FILES, TableId


@dataclass(frozen=True, slots=True)
class PendingFiles:
    """Ledger rows that bronze has not read yet."""

    files: int = 0
    bytes: int = 0
    largest_chunk_files: int = 0
    largest_chunk_bytes: int = 0
    chunks: int = 0  # ledger files


def bronze_checkpoint(settings: Settings, pipeline: Pipeline) -> Checkpoint:
    return Checkpoint(settings, pipeline.bronze_table, FILES)


def silver_checkpoint(settings: Settings, pipeline: Pipeline) -> Checkpoint:
    return Checkpoint(settings, pipeline.silver_table, pipeline.bronze_table)


def gold_checkpoint(settings: Settings, pipeline: Pipeline) -> Checkpoint:
    return Checkpoint(settings, pipeline.gold_stream, pipeline.silver_table, writes=pipeline.gold_tables_of("hourly"), reads_changes=True)


def pending_files(settings: Settings, pipeline: Pipeline, up_to: int | None = None) -> PendingFiles:
    """What the ledger lists for this pipeline beyond the bronze checkpoint; `up_to`: at that version of the ledger."""
    fs, root = storage(settings.location(FILES))
    ahead = added_files(settings, FILES, bronze_checkpoint(settings, pipeline).position(), up_to)
    files = size = most_files = most_bytes = chunks = 0
    for name in _names(settings, ahead):
        with fs.open(f"{root}/{name}", "rb") as file:
            rows = pq.read_table(file, columns=["pipeline", "state", "size"])
        mine = rows.filter((pc.field("pipeline") == pipeline.name) & (pc.field("state") == "listed"))
        chunk_bytes = pc.sum(mine["size"]).as_py() or 0
        files, size = files + mine.num_rows, size + chunk_bytes
        chunks += 1
        most_files, most_bytes = max(most_files, mine.num_rows), max(most_bytes, chunk_bytes)
    return PendingFiles(files, size, most_files, most_bytes, chunks)


def _names(settings: Settings, ahead: Iterator[AddedFile]) -> list[str]:
    """The paths of these files of the ledger; of all that it has, when its log no longer tells which came in when."""
    try:
        return [file.path for file in ahead]
    except FileNotFoundError:
        ledger = lake_table(settings, FILES)
        return [] if ledger is None else [unquote(str(name)) for name in pa.table(ledger.get_add_actions(flatten=True))["path"].to_pylist()]


def is_small(settings: Settings, pipeline: Pipeline) -> bool:
    """Whether what the layers have yet to read calls for a driver tuned to start quickly: pending files, and what silver has not read."""
    unread = added_files(settings, pipeline.bronze_table, silver_checkpoint(settings, pipeline).position())
    try:
        waiting = sum(file.size for file in unread)  # Parquet is about as small as the gzipped files were
    except FileNotFoundError:  # so far behind that the commit files are gone
        return False
    return pending_files(settings, pipeline).bytes + waiting <= settings.small_mb * 1_000_000


def unfinished_layers(settings: Settings, pipeline: Pipeline) -> list[str]:
    """The layers that have not consumed all of their source, in data order; daily gold tables are no matter of an hourly run."""
    behind = []
    if pending_files(settings, pipeline).files:
        behind.append("bronze")
    if _has_unread(settings, pipeline.bronze_table, silver_checkpoint(settings, pipeline).position()):
        behind.append("silver")
    if any(silver_behind(settings, pipeline, table) for table in pipeline.gold_tables_of("hourly")):
        behind.append("gold")
    return behind


def silver_behind(settings: Settings, pipeline: Pipeline, gold: TableId) -> bool:
    """True when silver has rows that the gold table does not name yet, or has lost some that it counts."""
    named = named_silver_version(settings, pipeline, gold)
    consumed, silver = -1 if named is None else named, pipeline.silver_table
    if _has_unread(settings, silver, Position(consumed + 1, -1)):
        return True
    return any(True for _ in removed_files(settings, silver, consumed))


def named_silver_version(settings: Settings, pipeline: Pipeline, gold: TableId) -> int | None:
    """The silver version that a gold table was last computed from; None when it was never written."""
    found = lake_table(settings, gold)
    return None if found is None else found.transaction_version(silver_app(settings, pipeline))


def is_gold_stranded(settings: Settings, pipeline: Pipeline) -> bool:
    """True when an hourly gold table lacks silver data that the gold query has already passed: it is new, or was removed to be rebuilt."""
    if _has_unread(settings, pipeline.silver_table, gold_checkpoint(settings, pipeline).position()):
        return False
    return any(silver_behind(settings, pipeline, table) for table in pipeline.gold_tables_of("hourly"))


def check_gold_in_force(settings: Settings, pipeline: Pipeline, gold: TableId) -> None:
    """Raises CheckpointDamaged when the gold table is not what its log's transaction says: it was restored to an older version."""
    named = named_silver_version(settings, pipeline, gold)
    try:
        notes = (json.loads(info.get("userMetadata") or "{}") for _, info in versions_in_force(settings, gold))
        left = next((note["silver_version"] for note in notes if "silver_version" in note), named)
    except RestoredToUnknown:
        left = None
    if named is not None and left != named:
        raise CheckpointDamaged(
            f"{gold} was computed from {pipeline.silver_table} version {named}, but a restore took it back "
            f"{'to a point in time' if left is None else f'to version {left} of it'}. Nothing was written by this run. "
            f"Remove its folder {settings.location(gold)}: the next run computes all of it again from silver."
        )


def silver_app(settings: Settings, pipeline: Pipeline) -> str:
    """The transaction app id under which gold commits name their silver version (as transaction version); another silver, another app."""
    silver = lake_table(settings, pipeline.silver_table)
    return f"{pipeline.silver_table}/{'' if silver is None else silver.metadata().id}"


def commit_notes(settings: Settings, table: TableId) -> Iterator[dict[str, object]]:
    """The `userMetadata` that Assay wrote into a table's commits, newest first, as far back as commit files exist."""
    found = lake_table(settings, table)
    for version in range(-1 if found is None else found.version(), -1, -1):
        try:
            info = commit_metadata(settings, table, version)
        except FileNotFoundError:
            return
        if text := info.get("userMetadata"):
            yield {**json.loads(text), "version": version, "metrics": info.get("operationMetrics") or {}}


def undone_decisions(settings: Settings, pipeline: Pipeline) -> list[dict[str, str]]:
    """Decisions of a person on held or stopped batches that no batch's books have recorded yet, oldest first."""
    ops = Ops(settings)
    mine = pc.field("pipeline") == pipeline.name
    decisions = ops.read(DECISIONS, filter=mine).to_pylist()
    if not decisions:
        return []
    books = ops.read(BOOKS, ["table", "batch_id"], mine, present=["decision"]).to_pylist()
    done = {(row["table"], row["batch_id"].split(".")[0]) for row in books}
    # The checkpoint was made anew: the batch comes under another name, or its records in batches of other bounds.
    done |= {(row["table"], row["batch_id"]) for row in decisions if row["decision"] == "superseded"}
    decisions.sort(key=lambda row: row["decided_at"])
    return [row for row in decisions if (row["table"], row["batch_id"]) not in done]


def _has_unread(settings: Settings, table: TableId, after: Position) -> bool:
    try:
        return any(True for _ in added_files(settings, table, after))
    except FileNotFoundError:  # so far behind that the commit files are gone: certainly work
        return True
