"""One version of one landed object: its identity, and how it is opened."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import fsspec
from fsspec import AbstractFileSystem

from spark_jobs.spec.errors import AssayError

# What object stores call the tag of one version of an object: S3 and HTTP, Google and Azure.
_VERSION_TAGS = ("ETag", "etag")
# Where a store has no tag, its modification time stands in; the name differs from one fsspec file system to the next.
_MODIFICATION_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")


class FileFault(AssayError):
    """A landed file cannot be read as a whole; its text is the `reason` of the file's outcome.

    `rule` is the short code of the fault. `heals` says whether a later reading may succeed without anybody's help.
    """

    def __init__(self, rule: str, reason: str, *, heals: bool = False) -> None:
        super().__init__(reason)
        self.rule = rule
        self.reason = reason
        self.heals = heals


@dataclass(frozen=True, slots=True)
class LandedFile:
    """A row of the file ledger: which version of which object is to be read, for the how-manieth time.

    `path` is an absolute local path or an fsspec URL, `size` is in stored bytes, `version` is what `object_version` said
    when the object was listed.
    """

    path: str
    size: int
    version: str
    file_id: str
    attempt: int = 1
    listed_at: datetime | None = None


def file_id(path: str, size: int, version: str) -> str:
    """32 hex digits that name this version of this object: the same for every reading, different for a rewritten file."""
    return hashlib.blake2b(f"{path}|{size}|{version}".encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def file_system_of(location: str) -> AbstractFileSystem:
    """The file system of an absolute path or URL, without a cache of listings: what is asked is what is there now.

    The protocol is cut off by hand because fsspec's own parser takes `::` inside an object's name for a chain of file systems.
    """
    protocol, separator, _ = location.partition("://")
    if not separator:
        return fsspec.filesystem("file")
    options: dict[str, Any] = fsspec.get_filesystem_class(protocol)._get_kwargs_from_urls(location)
    return fsspec.filesystem(protocol, use_listings_cache=False, **options)


def object_version(fs: AbstractFileSystem, info: dict[str, Any]) -> str:
    """What tells this version of an object from an earlier one under the same name, as text.

    `info` is what `fs.info` or a detailed `fs.ls` or `fs.find` returned. Object stores: the entity tag. Local files: the
    modification time in nanoseconds (fsspec itself gives a float, which is too coarse). Others: their modification time.
    """
    if "file" in _protocols(fs):
        return str(os.stat(info["name"]).st_mtime_ns)
    for name in _VERSION_TAGS:
        if info.get(name):
            return str(info[name]).strip('"')
    for name in _MODIFICATION_TIMES:
        moment = info.get(name)
        if moment:
            return moment.isoformat() if isinstance(moment, datetime) else str(moment)
    return ""


def _protocols(fs: AbstractFileSystem) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)
