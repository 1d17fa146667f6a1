"""One row of `_ops.progress` from what Spark said of a batch, what its books counted, and what its source's log holds.

Spark's own count of input rows is not taken: it counts every reading of the batch's frame (two for a gate, none for gold, which reads
silver by version). Rows are those of the books, and where a query has no books of its own those of the source's log.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from spark_jobs.io.backlog import Amount, Backlog
from spark_jobs.io.checkpoint import Checkpoint
from spark_jobs.io.delta_log import START, Position

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

Row = dict[str, Any]


@dataclass
class Watched:
    """A query whose batches are followed: where it reads, and when its last batch began."""

    table: str
    checkpoint: Checkpoint
    backlog: Backlog
    query_run: str = ""
    began: datetime | None = None
    heard: int = -1  # the newest batch that Spark told of
    query: StreamingQuery | None = None
    limits: dict[int, int | None] = field(default_factory=dict)  # the bound that was in force, by batch


def row_of_batch(watched: Watched, said: Mapping[str, Any], booked: Sequence[Row], now: datetime) -> Row:
    """`said`: Spark's StreamingQueryProgress. `booked`: rows of `_ops.books` of this batch, one per table it wrote."""
    began = _time(said["timestamp"])
    duration = int(said.get("batchDuration") or said["durationMs"].get("triggerExecution", 0))
    source = said["sources"][0] if said["sources"] else {}
    start, end = _position(source.get("startOffset")), _position(source.get("endOffset"))
    taken, left = _amounts(watched.backlog, start, end)
    own = [row for row in booked if row["table"] == watched.table]
    rows = sum(row["read"] for row in own) if own else (taken.rows if taken else None)
    previous, watched.began = watched.began, began
    targets = {row["table"]: row["target_version"] for row in booked}
    state = said.get("stateOperators") or []
    between = (began - previous).total_seconds() if previous else 0
    return {
        "table": watched.table,
        "batch_id": watched.checkpoint.batch_id(int(said["batchId"])),
        "input_rows": rows,
        "input_rows_per_s": round(rows / between, 3) if rows is not None and between > 0 else None,
        "processed_rows_per_s": round(rows * 1000 / duration, 3) if rows is not None and duration > 0 else None,
        "duration_ms": duration,
        "phases": json.dumps(said["durationMs"], sort_keys=True),
        "batch_bytes": taken.bytes if taken else None,
        "batch_limit": watched.limits.pop(int(said["batchId"]), None),
        "lag_files": left.files if left else None,
        "lag_bytes": left.bytes if left else None,
        "lag_minutes": _minutes(left, now),
        "state_rows": sum(int(one.get("numRowsTotal") or 0) for one in state) if state else 0,
        "state_bytes": sum(int(one.get("memoryUsedBytes") or 0) for one in state) if state else 0,
        "source_version": end.version if end.index >= 0 else end.version - 1,
        "target_version": next(iter(targets.values())) if len(targets) == 1 else None,
        "targets": json.dumps(targets, sort_keys=True),
        "started_at": began,
        "at": began + timedelta(milliseconds=duration),
    }


def row_of_books(booked: Row) -> Row:
    """For a batch that no streaming query ran (daily gold, a replay, a decision): what its books say; there are no phases."""
    took = (booked["finished_at"] - booked["started_at"]).total_seconds()
    return {
        "table": booked["table"],
        "batch_id": booked["batch_id"],
        "input_rows": booked["read"],
        "processed_rows_per_s": round(booked["read"] / took, 3) if took > 0 else None,
        "duration_ms": round(took * 1000),
        "source_version": booked["source_version"],
        "target_version": booked["target_version"],
        "targets": json.dumps({booked["table"]: booked["target_version"]}),
        "started_at": booked["started_at"],
        "at": booked["finished_at"],
    }


AT_REST: Row = {"message": "", "is_data_available": False, "is_trigger_active": False}


def state_of(query: StreamingQuery) -> Row:
    """What the query is doing now, as Spark says it."""
    status = query.status
    return {
        "message": str(status["message"]),
        "is_data_available": bool(status["isDataAvailable"]),
        "is_trigger_active": bool(status["isTriggerActive"]),
    }


def place() -> Row:
    """Where this process runs."""
    return {"host": socket.gethostname(), "pid": os.getpid()}


def _amounts(backlog: Backlog, start: Position, end: Position) -> tuple[Amount | None, Amount | None]:
    try:
        return backlog.take(start, end)
    except FileNotFoundError:  # so far behind that maintenance has removed the commits: unknown
        return None, None


def _minutes(left: Amount | None, now: datetime) -> float | None:
    if left is None:
        return None
    return round(max(0.0, now.timestamp() - left.since) / 60, 2) if left.since else 0.0


def _position(offset: Any) -> Position:
    """Of Delta's offset, which the progress holds as an object or as its text."""
    if not offset:
        return START
    return Position.of_offset(offset if isinstance(offset, str) else json.dumps(offset))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
