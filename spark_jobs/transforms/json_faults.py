"""Faults of JSON text that a tolerant reader hides: trailing text, repeated keys, half characters, too deep, too long. Pure Python."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from msgspec import Raw

# Jackson's StreamReadConstraints: beyond these no JSON function of Spark could read the text that silver keeps.
MAX_DEPTH = 1_000
MAX_STRING = 20_000_000  # UTF-16 units, as Java counts characters


class BrokenRecord(Exception):
    """A record breaks its contract; caught where the record is read and turned into its row's rule and reason."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule, self.reason = rule, reason


def check_text(raw: bytes) -> None:
    """Raises BrokenRecord for text that is no single JSON text or that readers could not take.

    Rules: invalid_utf8, too_deep, string_too_long, lone_surrogate, unparseable_json. Call within `room_for_depth`.
    """
    try:
        raw.decode()
    except UnicodeDecodeError as fault:
        raise BrokenRecord("invalid_utf8", f"The record is not UTF-8 text: {fault.reason} (byte {fault.start}).") from None
    if not raw.strip():
        raise BrokenRecord("unparseable_json", "The record is empty.")
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and (depth := _depth(raw)) > MAX_DEPTH:
        raise BrokenRecord("too_deep", f"The record is nested {depth:,} levels deep; {MAX_DEPTH:,} can be read.")
    if len(raw) > MAX_STRING and (longest := _longest_string(raw)) > MAX_STRING:
        raise BrokenRecord("string_too_long", f"The record holds a string of {longest:,} characters; {MAX_STRING:,} can be read.")
    if b"\\u" in raw and (half := _lone_surrogate(raw)):
        raise BrokenRecord("lone_surrogate", f"The record holds \\u{half}, half of a surrogate pair, which is no character.")
    try:
        msgspec.json.decode(raw, type=Raw)
    except msgspec.MsgspecError as fault:
        what = str(fault).removeprefix("JSON is malformed: ")
        raise BrokenRecord("unparseable_json", f"The record is not one JSON text: {what}.") from None


def repeated_key(raw: bytes) -> str | None:
    """The first key that the outermost object of `raw` has twice (after unescaping); `raw` is valid JSON."""
    seen: set[str] = set()
    for key in _outer_keys(raw):
        if key in seen:
            return key
        seen.add(key)
    return None


@contextmanager
def room_for_depth() -> Iterator[None]:
    """Up to Python 3.11 a C recursion counts as a Python one, so 1,000 levels of JSON need more room than the default 1,000."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 4 * MAX_DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(_STRING + rb"|[{}\[\]:]", re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def _outer_keys(raw: bytes) -> Iterator[str]:
    depth, last = 0, b""
    for token in _TOKEN.finditer(raw):
        text = token[0]
        if text in (b"{", b"["):
            depth += 1
        elif text in (b"}", b"]"):
            depth -= 1
        elif depth == 1 and text == b":":
            yield msgspec.json.decode(last, type=str)
        last = text


def _depth(raw: bytes) -> int:
    depth = deepest = 0
    for token in _TOKEN.finditer(raw):
        first = token[0][:1]
        if first in (b"{", b"["):
            depth += 1
            deepest = max(deepest, depth)
        elif first in (b"}", b"]"):
            depth -= 1
    return deepest


def _longest_string(raw: bytes) -> int:
    """Characters of the longest string that may be too long; 0 when none can be."""
    return max((_characters(found[0]) for found in re.finditer(_STRING, raw, re.DOTALL) if len(found[0]) - 2 > MAX_STRING), default=0)


def _characters(string: bytes) -> int:
    try:
        return len(msgspec.json.decode(string, type=str).encode("utf-16-le")) // 2
    except (msgspec.MsgspecError, UnicodeError):
        return len(string) - 2


def _lone_surrogate(raw: bytes) -> str | None:
    """The first half of a pair that stands alone, as four hex digits."""
    high, end = "", -1
    for escape in _ESCAPE.finditer(raw):
        digits = escape[1].decode() if escape[1] else ""
        is_low = "dc" <= digits[:2].lower() <= "df"
        if high and not (is_low and escape.start() == end):
            return high
        if is_low and not high:
            return digits
        high = digits if "d8" <= digits[:2].lower() <= "db" else ""
        end = escape.end()
    return high or None
