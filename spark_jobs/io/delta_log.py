"""What was added to a Delta table between two points of its history, read from its log without a JVM and without its older history."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from spark_jobs.io.lake import commit_actions, commit_metadata, lake_table
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId


@dataclass(frozen=True, slots=True)
class Position:
    """How far a stream has read a Delta table: everything before `version`, and of `version` the files up to `index`."""

    version: int
    index: int  # negative: nothing of that version yet

    @classmethod
    def of_offset(cls, text: str) -> Position:
        """From the JSON of Delta's streaming source offset."""
        offset = json.loads(text)
        return cls(int(offset["reservoirVersion"]), int(offset["index"]))


class RestoredToUnknown(Exception):
    """A RESTORE commit does not say which version it went back to. `args[0]` is the version of that commit."""


START = Position(0, -1)


@dataclass(frozen=True, slots=True)
class AddedFile:
    """One data file that a commit added; `rows` is None where the writer kept no statistics."""

    version: int
    path: str  # below the table's folder, decoded
    size: int
    rows: int | None
    index: int = -1  # among the version's files, as Delta's streaming source counts
    written_at: float = 0.0  # epoch seconds


def added_files(settings: Settings, table: TableId, after: Position, up_to: int | None = None) -> Iterator[AddedFile]:
    """The data files that commits added after a position, up to and including version `up_to` (default: the latest), in commit order.

    Rearranging commits (compaction) add nothing. Raises FileNotFoundError when a commit file in between was already cleaned up.
    """
    found = lake_table(settings, table)
    if found is None:
        return
    last = found.version() if up_to is None else up_to
    for version in range(after.version, last + 1):
        adds = (action["add"] for action in commit_actions(settings, table, version) if "add" in action)
        for index, add in enumerate(add for add in adds if add.get("dataChange", True)):
            if version == after.version and index <= after.index:
                continue
            stats = json.loads(add["stats"]) if add.get("stats") else {}
            written_at = int(add.get("modificationTime") or 0) / 1000
            yield AddedFile(version, unquote(add["path"]), int(add["size"]), stats.get("numRecords"), index, written_at)


@dataclass(frozen=True, slots=True)
class RemovedFile:
    """One data file whose rows a commit took out or wrote anew elsewhere, with its partition's values as text."""

    version: int
    path: str  # below the table's folder, decoded
    partition: Mapping[str, str]


def removed_files(settings: Settings, table: TableId, after: int, up_to: int | None = None) -> Iterator[RemovedFile]:
    """The data files that commits took out after version `after`, up to and including `up_to` (default: the latest); not by rearranging.

    Raises FileNotFoundError when a commit file in between was already cleaned up.
    """
    found = lake_table(settings, table)
    if found is None:
        return
    for version in range(after + 1, (found.version() if up_to is None else up_to) + 1):
        for action in commit_actions(settings, table, version):
            gone = action.get("remove")
            if gone is not None and gone.get("dataChange", True):
                path = unquote(gone["path"])
                folders = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)  # some writers leave the values out
                yield RemovedFile(version, path, gone.get("partitionValues") or folders)


def versions_in_force(settings: Settings, table: TableId) -> Iterator[tuple[int, dict[str, Any]]]:
    """The versions that make the table what it is now, newest first, each with its `commitInfo`; as far back as commit files exist.

    After a RESTORE the versions that it undid are left out. Raises RestoredToUnknown for a RESTORE to a point in time: its commit does
    not tell the version.
    """
    found = lake_table(settings, table)
    version = -1 if found is None else int(found.version())
    while version >= 0:
        try:
            info = commit_metadata(settings, table, version)
        except FileNotFoundError:
            return
        if info.get("operation") == "RESTORE":
            aim = (info.get("operationParameters") or {}).get("version")
            if aim is None:
                raise RestoredToUnknown(version)
            version = int(aim)
        else:
            yield version, info
            version -= 1


def latest_version(settings: Settings, table: TableId) -> int | None:
    """None when the table was never written."""
    found = lake_table(settings, table)
    return None if found is None else int(found.version())
