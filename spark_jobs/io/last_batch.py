"""What a streamed table is now: its newest batch that counts, and the batches that a RESTORE took back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from spark_jobs.io.checkpoint import STREAM_BATCH
from spark_jobs.io.delta_log import RestoredToUnknown
from spark_jobs.io.lake import commit_metadata, lake_table
from spark_jobs.spec.replays import PREFIX
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId


@dataclass
class LastBatch:
    """`batch_id` is empty when no batch of a stream counts; `note` is that of its commit. `exists`: the table is there."""

    exists: bool = False
    batch_id: str = ""
    note: dict[str, Any] = field(default_factory=dict)
    undone: set[str] = field(default_factory=set)  # batch ids whose commits were taken back, of streams, decisions and replays
    was_restored: bool = False
    reaches_back: bool = True  # the log still has the commit that was looked for

    def is_void(self, batch_id: str) -> bool:
        """True when rows beside the table that carry this batch id belong to no commit of it that counts."""
        if not self.exists:
            return True
        named = batch_id.split(".")[0] if batch_id.startswith(PREFIX) else batch_id
        if named in self.undone:
            return True
        mine, last = STREAM_BATCH.fullmatch(named), STREAM_BATCH.fullmatch(self.batch_id)
        if mine is None:
            return False  # a decision or a replay: whoever finds it half done goes on with it, under whichever checkpoint
        return last is None or _place(mine) > _place(last)


def last_batch(settings: Settings, table: TableId) -> LastBatch:
    """Read from the table's log, newest first. Raises RestoredToUnknown for a RESTORE that does not say to which version."""
    opened = lake_table(settings, table)
    if opened is None:
        return LastBatch()
    found, version = LastBatch(exists=True), int(opened.version())
    while version >= 0:
        try:
            info = commit_metadata(settings, table, version)
        except FileNotFoundError:
            found.reaches_back = False
            return found
        if info.get("operation") == "RESTORE":
            aim = (info.get("operationParameters") or {}).get("version")
            if aim is None:
                raise RestoredToUnknown(version)
            found.was_restored = True
            found.undone |= {name for undone in range(int(aim) + 1, version) if (name := _batch_at(settings, table, undone))}
            version = int(aim)
            continue
        note = json.loads(info.get("userMetadata") or "{}")
        if STREAM_BATCH.fullmatch(str(note.get("batch_id", ""))):
            found.batch_id, found.note = str(note["batch_id"]), {**note, "version": version, "metrics": info.get("operationMetrics") or {}}
            return found
        version -= 1
    return found


def _batch_at(settings: Settings, table: TableId, version: int) -> str:
    try:
        info = commit_metadata(settings, table, version)
    except FileNotFoundError:
        return ""
    return str(json.loads(info.get("userMetadata") or "{}").get("batch_id", ""))


def _place(batch: Any) -> tuple[int, int]:
    return int(batch[1]), int(batch[2])
