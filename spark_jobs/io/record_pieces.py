"""The pieces a document is split into, and what is wrong with a piece that is not a record."""

from __future__ import annotations

import json
from array import array
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from spark_jobs.io.landed_file import FileFault

INVALID_UTF8 = "invalid_utf8"
NOT_JSON = "not_json_record"
REMAINDER = "unreadable_remainder"

Flaw = tuple[str, str]  # rule and reason of a quarantined piece


@dataclass(slots=True)
class Split:
    """The pieces of one document in order. A piece is a record unless its index is in `flaws`; nothing is in two pieces."""

    pieces: list[msgspec.Raw] = field(default_factory=list)
    flaws: dict[int, Flaw] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def too_many_records(bound: int) -> FileFault:
    return FileFault("too_many_records", f"The file has more than {bound:,} records, the bound for one file. Deliver it in parts.")


def is_utf8(document: bytes | bytearray) -> bool:
    """Whether the whole document is valid UTF-8, without making a text of it."""
    try:
        offsets = pa.py_buffer(array("q", (0, len(document))))  # not pa.array, which imports pandas
        pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(document)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def flaw_of_encoding(text: memoryview) -> Flaw | None:
    try:
        str(text, "utf-8")
    except UnicodeDecodeError as fault:
        return INVALID_UTF8, f"Byte {fault.start:,} of the record ({text[fault.start]:#04x}) is not valid UTF-8, so the record is not text."
    return None


def flaw_of_syntax(text: memoryview) -> Flaw | None:
    """None when `text`, already measured as one value, is JSON by one of two parsers; its encoding is not looked at.

    msgspec refuses more than JSON forbids (deep nesting, an escaped lone surrogate), so its refusal is checked with the
    standard parser; what that finds too deep has balanced brackets, as it was measured, and is let through.
    """
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
        return None
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        pass
    try:
        json.loads(str(text, "utf-8", "replace"), parse_int=str, parse_float=str)
    except RecursionError:
        return None
    except ValueError as fault:
        return NOT_JSON, f"The text between two records is not JSON: {fault}."
    return None
