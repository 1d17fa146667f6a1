"""Listing a landing folder: the newest date prefixes for the hourly look, everything for a sweep. Any fsspec path or URL."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from spark_jobs.io.lake import storage
from spark_jobs.io.landed_file import object_version
from spark_jobs.spec.backfill import ACCOUNT, REGION
from spark_jobs.spec.errors import ConfigurationFault

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_DATE = re.compile(r"(?:^|/)(\d{4})/(\d{2})/(\d{2})/")


@dataclass(frozen=True, slots=True)
class ListedObject:
    """One object as a listing showed it. `below_root` is its path below the landing root."""

    path: str
    below_root: str
    size: int
    version: str
    modified_at: datetime
    prefix_date: date | None


class LandingFolder:
    """The landing root of a pipeline. Raises ConfigurationFault when it cannot be listed."""

    def __init__(self, root: str, mend: str = "Set ASSAY_LANDING (or FILES=…) to the folder that holds the log files.") -> None:
        self.root = root
        self.refused: list[str] = []  # folders below it that this user may not list; what lies in them is not listed yet
        self._fs, self._path = storage(root)
        self._fs.invalidate_cache()
        try:
            if not self._fs.isdir(self._path):
                what = "is a file, not a folder" if self._fs.exists(self._path) else "does not exist"
                raise ConfigurationFault(f"The landing folder {root} {what}. {mend}")
            self._fs.ls(self._path, detail=False)
        except PermissionError:
            raise ConfigurationFault(
                f"The landing folder {root} may not be listed: permission denied. Grant this user read access to it."
            ) from None

    def everything(self) -> Iterator[ListedObject]:
        """All objects below the root."""
        yield from self._objects(self._path)

    def newest(self, dates: int) -> Iterator[ListedObject]:
        """The objects of the newest `dates` date prefixes (…/yyyy/mm/dd/) of every account and region, and all that lie outside dates."""
        for folder, is_leaf in self._recent_folders(self._path, dates):
            yield from self._objects(folder, deep=is_leaf)

    def dated(self, first: date, last: date, *, accounts: Collection[str] = (), regions: Collection[str] = ()) -> Iterator[ListedObject]:
        """The objects below the date folders (…/yyyy/mm/dd/) of these days, oldest day first within each account and region.

        `accounts`, `regions`: only below folders of these names, as in AWSLogs/[organisation/]<account>/CloudTrail/<region>/yyyy/mm/dd;
        empty: all. No other date folder is listed, and nothing that lies outside date folders.
        """
        for folder in self._dated_folders(self._path, first, last, accounts, regions):
            yield from (found for found in self._objects(folder) if found.prefix_date and first <= found.prefix_date <= last)

    def _dated_folders(self, folder: str, first: date, last: date, accounts: Collection[str], regions: Collection[str]) -> Iterator[str]:
        parts = folder.split("/")
        if any(
            wanted and pattern.fullmatch(parts[-1]) and parts[-1] not in wanted
            for pattern, wanted in ((ACCOUNT, accounts), (REGION, regions))
        ):
            return
        children = self._folders(folder)
        years = sorted(name for name in children if re.fullmatch(r"\d{4}", name))
        for name in sorted(set(children) - set(years)):
            yield from self._dated_folders(f"{folder}/{name}", first, last, accounts, regions)
        if any(wanted and not set(parts) & set(wanted) for wanted in (accounts, regions)):
            return
        for year in years:
            if not first.year <= int(year) <= last.year:
                continue
            for month in sorted(self._folders(f"{folder}/{year}")):
                if not f"{first:%Y%m}" <= f"{year}{month}" <= f"{last:%Y%m}":
                    continue
                for day in sorted(self._folders(f"{folder}/{year}/{month}")):
                    if f"{first:%Y%m%d}" <= f"{year}{month}{day}" <= f"{last:%Y%m%d}":
                        yield f"{folder}/{year}/{month}/{day}"

    def _recent_folders(self, folder: str, dates: int) -> Iterator[tuple[str, bool]]:
        """(folder, whether to take all below it): folders without dated children are walked, date folders are taken newest first."""
        yield folder, False
        children = self._folders(folder)
        years = [name for name in children if re.fullmatch(r"\d{4}", name)]
        for name in children:
            if name not in years:
                yield from self._recent_folders(f"{folder}/{name}", dates)
        days = 0
        for year in sorted(years, reverse=True):
            for month in sorted(self._folders(f"{folder}/{year}"), reverse=True):
                for day in sorted(self._folders(f"{folder}/{year}/{month}"), reverse=True):
                    yield f"{folder}/{year}/{month}/{day}", True
                    days += 1
                    if days == dates:
                        return

    def _folders(self, folder: str) -> list[str]:
        return [str(info["name"]).rstrip("/").rsplit("/", 1)[-1] for info in self._listing(folder) if info["type"] == "directory"]

    def _objects(self, folder: str, deep: bool = True) -> Iterator[ListedObject]:
        if "file" in self._fs.protocol:  # fsspec's own `find` leaves out folders that it may not list, without a word
            found = {str(info["name"]): info for info in self._below(folder, deep)}
        else:
            found = self._fs.find(folder, maxdepth=None if deep else 1, detail=True)
        for path in sorted(found):
            if listed := listed_object(self._fs, self._path, found[path]):
                yield listed

    def _below(self, folder: str, deep: bool) -> Iterator[dict[str, Any]]:
        for info in self._listing(folder):
            if info["type"] != "directory":
                yield info
            elif deep:
                yield from self._below(str(info["name"]), deep)

    def _listing(self, folder: str) -> list[dict[str, Any]]:
        try:
            listed: list[dict[str, Any]] = self._fs.ls(folder, detail=True)
        except PermissionError:
            if folder not in self.refused:
                self.refused.append(folder)
            return []
        except FileNotFoundError:  # it was removed since its parent was listed
            return []
        return listed


def listed_object(fs: AbstractFileSystem, root: str, info: dict[str, Any]) -> ListedObject | None:
    """From fsspec's description of an object; None when it vanished since it was listed."""
    path = str(info["name"])
    try:
        version = object_version(fs, info)
    except FileNotFoundError:
        return None
    below = path[len(root) :].lstrip("/")
    dated = _DATE.search(below)
    return ListedObject(
        path=str(fs.unstrip_protocol(path)) if fs.protocol not in ("file", ("file", "local")) else path,
        below_root=below,
        size=int(info["size"] or 0),
        version=version,
        modified_at=modified_at(info),
        prefix_date=_as_date(dated) if dated else None,
    )


def modified_at(info: dict[str, Any]) -> datetime:
    """When an object was written, from what its file system lists of it; 1970 when it does not say."""
    for key in ("mtime", "LastModified", "updated", "last_modified"):
        value = info.get(key)
        if isinstance(value, datetime):
            return value.astimezone(UTC)
        if isinstance(value, (int, float)):
            return datetime.fromtimestamp(value, UTC)
    return datetime.fromtimestamp(0, UTC)


def _as_date(found: re.Match[str]) -> date | None:
    try:
        return date(*(int(part) for part in found.groups()))
    except ValueError:
        return None
