"""Which data files of a table are worth joining, and which nobody needs any more. Read from the log and a listing, without a JVM.

Compaction itself is a commit and so is left to the engine that writes the table; removing what no version in use names is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from urllib.parse import unquote

import pyarrow as pa

from spark_jobs.io.consumers import Need, needed_files
from spark_jobs.io.lake import lake_table, storage
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId

SMALL_BYTES = 32_000_000  # half a batch of bronze: a file below it was written by an hour with little input
FEW_FILES = 4  # opening four files costs milliseconds; joining them would rewrite a day for nothing


@dataclass(frozen=True, slots=True)
class Crowded:
    """A partition with many small files."""

    day: date
    files: int
    bytes: int


@dataclass(slots=True)
class Swept:
    """What a table lost in one removal, and what was left for somebody. `held_back_by` names them, the slowest first."""

    removed: int = 0
    bytes: int = 0
    kept: int = 0
    kept_from_version: int | None = None
    held_back_by: list[str] = field(default_factory=list)


def crowded_partitions(settings: Settings, table: TableId, column: str, *, closed_before: date, quiet_since: datetime) -> list[Crowded]:
    """The closed partitions of a table with more than FEW_FILES small files, oldest first.

    Closed: its day is before `closed_before`, and no file came to it since `quiet_since` (a backfill may be at work on it).
    """
    found = lake_table(settings, table)
    if found is None:
        return []
    files = pa.table(found.get_add_actions(flatten=True))
    if f"partition.{column}" not in files.column_names:
        return []
    days: dict[date, list[tuple[int, int]]] = {}
    columns = (files[name].to_pylist() for name in (f"partition.{column}", "size_bytes", "modification_time"))
    for day, size, written in zip(*columns, strict=True):
        if day is not None:
            days.setdefault(day, []).append((size, written))
    crowded = []
    for day, members in sorted(days.items()):
        small = [size for size, _ in members if size < SMALL_BYTES]
        newest = max(written for _, written in members)
        if len(small) > FEW_FILES and day < closed_before and newest < quiet_since.timestamp() * 1000:
            crowded.append(Crowded(day, len(small), sum(small)))
    return crowded


def unneeded_files(settings: Settings, table: TableId, *, older_than: timedelta) -> list[str]:
    """Data files below the table's folder that its newest version does not name: replaced, or never committed, that long ago.

    A dry run of delta-rs's full vacuum: it commits nothing and removes nothing.
    """
    found = lake_table(settings, table)
    if found is None:
        return []
    hours = max(0, math.ceil(older_than / timedelta(hours=1)))  # rounded to the longer time
    named = found.vacuum(retention_hours=hours, dry_run=True, enforce_retention_duration=False, full=True)
    # Hadoop keeps a checksum beside each file on a disk, which no log names: it goes with its file.
    return sorted({path for path in map(unquote, named) if not path.endswith(".crc")})


def remove_unneeded(settings: Settings, table: TableId, candidates: Sequence[str], needs: Sequence[Need]) -> Swept:
    """Remove those candidates that no consumer may still read. Killed on the way, the rest is found again the next time."""
    swept = Swept()
    kept: set[str] = set()
    for need in needs:
        needed = needed_files(settings, need)
        mine = set(candidates) if needed is None else needed & set(candidates)
        if mine:
            kept |= mine
            swept.held_back_by.append(need.who)
            swept.kept_from_version = min(need.version, need.version if swept.kept_from_version is None else swept.kept_from_version)
    fs, root = storage(settings.location(table))
    for path in candidates:
        if path in kept:
            continue
        with suppress(FileNotFoundError):  # an earlier maintenance was killed between the listing and here, or another is at work
            size = int(fs.size(f"{root}/{path}") or 0)
            folder, _, name = f"{root}/{path}".rpartition("/")
            if fs.exists(checksum := f"{folder}/.{name}.crc"):
                fs.rm_file(checksum)
            fs.rm_file(f"{folder}/{name}")
            swept.removed, swept.bytes = swept.removed + 1, swept.bytes + size
    swept.kept = len(kept)
    return swept
