"""Reading one landed file, byte for byte: open, compare with the listing, hash, inflate within a bound, split into records."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from fsspec import AbstractFileSystem

from spark_jobs.io.file_reading import FileReading
from spark_jobs.io.gzip_stream import GzipStream
from spark_jobs.io.landed_file import FileFault, LandedFile, file_system_of, object_version
from spark_jobs.io.record_splitter import split_document

_CHUNK = 1 << 17  # stored bytes read at a time


def read_landed_file(entry: LandedFile, *, records_key: str, max_inflated_bytes: int) -> FileReading:
    """Reads the version of the file that was listed, and only that one.

    A name that ends in .gz is inflated, any other is taken as JSON. Never raises: whatever goes wrong is the file's failed outcome, with
    no pieces, so that the files beside it are read. Peak memory: the inflated bytes and at most 300 bytes per record.
    """
    reading = FileReading(entry)
    try:
        stored = _StoredFile(entry, max_inflated_bytes)
        try:
            document = stored.read()
        finally:
            reading = replace(reading, sha256=stored.sha256, bytes=stored.bytes, inflated_bytes=stored.inflated_bytes)
        split = split_document(document, records_key=records_key)
        return replace(reading, split=split, notes="; ".join(stored.notes + split.notes) or None)
    except FileFault as fault:
        return replace(reading, rule=fault.rule, reason=fault.reason, heals=fault.heals)
    except MemoryError:
        reason = "The memory of the worker did not suffice for the file. Give the workers more, or lower ASSAY_MAX_INFLATED_MB."
        return replace(reading, rule="unexpected", reason=reason, heals=True)
    except Exception as fault:
        return replace(reading, rule="unexpected", reason=f"Reading the file raised {type(fault).__name__}: {fault}")


class _StoredFile:
    """The object in its store. `read` gives the document; the facts are those found so far, also when it raises."""

    def __init__(self, entry: LandedFile, max_inflated_bytes: int) -> None:
        self.sha256: str | None = None
        self.bytes: int | None = None
        self.inflated_bytes: int | None = None
        self.notes: list[str] = []
        self._entry = entry
        self._limit = max_inflated_bytes

    def read(self) -> bytearray:
        """Raises FileFault changed, vanished, unreadable, empty_file, or what inflating raises."""
        if not self._entry.path.endswith(".gz"):
            return self._read_into(PlainStream(self._limit))
        stream = GzipStream(self._limit)
        document = self._read_into(stream)
        if stream.trailing:
            self.notes.append(f"{stream.trailing:,} bytes after the end of the gzip stream were not read")
        return document

    def _read_into(self, stream: GzipStream | PlainStream) -> bytearray:
        fs = self._still_as_listed()
        digest = hashlib.sha256()
        size, fault = 0, None
        try:
            with fs.open(self._entry.path, "rb") as file:
                while size <= self._entry.size and (chunk := file.read(_CHUNK)):
                    size += len(chunk)
                    digest.update(chunk)
                    if fault is None:
                        try:
                            stream.feed(chunk)
                        except FileFault as found:  # the rest is read all the same, for the hash
                            fault = found
        except MemoryError:
            raise
        except Exception as error:
            self._still_as_listed()
            raise _unreadable(error) from None
        self._still_as_listed()
        if size != self._entry.size:
            raise _changed(f"{self._entry.size:,} bytes were listed and {size:,} were read")
        self.sha256, self.bytes, self.inflated_bytes = digest.hexdigest(), size, len(stream.inflated)
        if fault:
            raise fault
        if not size:
            raise FileFault("empty_file", "The file has no bytes. Deliver it again if it should have records.")
        return stream.finish()

    def _still_as_listed(self) -> AbstractFileSystem:
        """Looks at the object; raises FileFault when it is not the listed version, or cannot be looked at."""
        try:
            fs = file_system_of(self._entry.path)
            info: dict[str, Any] = fs.info(self._entry.path)
            version = object_version(fs, info)
        except FileNotFoundError:
            raise FileFault("vanished", "The file is no longer there: it was removed or renamed after it was listed.", heals=True) from None
        except MemoryError:
            raise
        except Exception as error:
            raise _unreadable(error) from None
        if int(info["size"]) != self._entry.size:
            raise _changed(f"{self._entry.size:,} bytes were listed and it has {int(info['size']):,}")
        if version != self._entry.version:
            raise _changed(f"version {self._entry.version} was listed and it is {version}")
        return fs


class PlainStream:
    """The counterpart of GzipStream for a file that is not compressed. Raises FileFault inflates_too_large."""

    def __init__(self, max_bytes: int) -> None:
        self.inflated = bytearray()
        self._limit = max_bytes

    def feed(self, stored: bytes) -> None:
        if len(self.inflated) + len(stored) > self._limit:
            raise FileFault(
                "inflates_too_large",
                f"The file has more than {self._limit:,} bytes, the bound for one file. Raise ASSAY_MAX_INFLATED_MB if it is honest.",
            )
        self.inflated += stored

    def finish(self) -> bytearray:
        return self.inflated


def _changed(how: str) -> FileFault:
    reason = f"The file is not the one that was listed ({how}): it was rewritten or is still being written. Its new version is listed anew."
    return FileFault("changed", reason, heals=True)


def _unreadable(error: Exception) -> FileFault:
    if isinstance(error, PermissionError):
        return FileFault("unreadable", "This user may not read the file: permission denied. Grant read access to it.", heals=True)
    return FileFault("unreadable", f"The file could not be read from its store ({type(error).__name__}: {error}).", heals=True)
