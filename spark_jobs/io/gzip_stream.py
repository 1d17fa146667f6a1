"""Inflating a gzip stream piece by piece, within a bound."""

from __future__ import annotations

import zlib

from spark_jobs.io.landed_file import FileFault

_MAGIC = b"\x1f\x8b"
_GZIP = 31  # zlib's window bits for "gzip header and trailer, largest window": the CRC and length are checked
_STEP = 1 << 18  # inflated at a time, so that a bomb is noticed long before it fills the memory


class GzipStream:
    """Feed it the stored bytes in order, then call `finish`; `inflated` is the content.

    Several gzip members one after another are one stream (RFC 1952, 2.2). Bytes after the last member that do not begin another
    one are counted in `trailing` and not read. Raises FileFault not_gzip, corrupt_gzip, truncated_gzip, inflates_too_large.
    """

    def __init__(self, max_inflated_bytes: int) -> None:
        self.inflated = bytearray()
        self.stored = 0
        self.trailing = 0
        self._limit = max_inflated_bytes
        self._member: zlib._Decompress | None = None
        self._held = b""  # a first byte that may be half of the next member's magic number

    def feed(self, stored: bytes) -> None:
        self.stored += len(stored)
        data = self._held + stored
        self._held = b""
        while data and not self.trailing:
            if self._member is None:
                if len(data) < 2 and _MAGIC.startswith(data):
                    self._held = data
                    return
                if not data.startswith(_MAGIC):
                    self._after_last_member(data)
                    return
                self._member = zlib.decompressobj(_GZIP)
            data = self._inflate(self._member, data)
        self.trailing += len(data)

    def _inflate(self, member: zlib._Decompress, data: bytes) -> bytes:
        """Inflates what it can and returns the bytes after the member's end."""
        while data:
            try:
                piece = member.decompress(data, _STEP)
            except zlib.error as fault:
                raise FileFault(
                    "corrupt_gzip",
                    f"The gzip stream is damaged within its first {self.stored:,} stored bytes ({_cause(fault)}); none of it can be "
                    "trusted. Deliver the file again.",
                ) from None
            self.inflated += piece
            if len(self.inflated) > self._limit:
                raise FileFault(
                    "inflates_too_large",
                    f"The file inflates to more than {self._limit:,} bytes, the bound for one file. Raise ASSAY_MAX_INFLATED_MB "
                    "if it is honest.",
                )
            if member.eof:
                self._member = None
                return member.unused_data
            data = member.unconsumed_tail
        return b""

    def _after_last_member(self, data: bytes) -> None:
        if self.stored == len(data):  # nothing was inflated yet: these are the first bytes of the file
            raise FileFault(
                "not_gzip",
                f"The name ends in .gz but the content is not gzip (it begins with the bytes {data[:4].hex(' ')}). "
                "Deliver it compressed, or under a name without .gz.",
            )
        self.trailing += len(data)

    def finish(self) -> bytearray:
        """The whole content; raises truncated_gzip when a member has no end."""
        if self._held and self.stored > len(self._held):
            self.trailing += len(self._held)
        elif self._member is not None or self._held:
            raise FileFault(
                "truncated_gzip",
                f"The gzip stream has no end: the file is cut off after {self.stored:,} stored bytes, or is still being written.",
                heals=True,
            )
        return self.inflated


def _cause(fault: zlib.error) -> str:
    return str(fault).rpartition(": ")[2]
