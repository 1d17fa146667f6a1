"""Where a JSON value ends, found without recursion: regular expressions jump over everything between two brackets.

These functions only measure. Whether the measured text is JSON is judged by a parser afterwards.
"""

from __future__ import annotations

import re
from collections import Counter

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_LITERAL = rb"(?:-?[0-9][0-9.eE+\-]*+|true|false|null)"
_SPACE = re.compile(rb"[ \t\n\r]*+")
STRING = re.compile(_STRING, re.DOTALL)
LITERAL = re.compile(_LITERAL)
_BETWEEN_BRACKETS = re.compile(rb"(?:[ \t\n\r,:]++|" + _STRING + rb"|" + _LITERAL + rb")*+", re.DOTALL)
_ANYTHING_FLAT = re.compile(rb'(?:[^"\[\]{},]++|' + _STRING + rb")*+", re.DOTALL)
_FIRST_KEY = re.compile(rb"\{[ \t\n\r]*(" + _STRING + rb")[ \t\n\r]*:", re.DOTALL)
_LIKELY_RECORD = re.compile(rb"\}[ \t\n\r]*,[ \t\n\r]*(?=\{)")

_OPENING = {ord("{"): ord("}"), ord("["): ord("]")}
_CLOSING = frozenset(b"}]")
_COMMA, _ARRAY_END = ord(","), ord("]")

Text = bytes | bytearray


def skip_space(text: Text, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def value_end(text: Text, start: int) -> int | None:
    """The end of the value that begins at `start`, or None where it breaks off or holds something that no JSON value holds."""
    first = text[start]
    if first not in _OPENING:
        found = (STRING if first == 0x22 else LITERAL).match(text, start)
        return found.end() if found else None
    expected = bytearray((_OPENING[first],))
    position = start + 1
    end = len(text)
    between = _BETWEEN_BRACKETS.match
    while expected:
        found = between(text, position)
        position = found.end() if found else position
        if position >= end:
            return None
        byte = text[position]
        if byte in _OPENING:
            expected.append(_OPENING[byte])
        elif byte == expected[-1]:
            expected.pop()
        else:
            return None
        position += 1
    return position


def damaged_element_end(text: Text, start: int, stop: int) -> int | None:
    """The comma or closing bracket, before `stop`, that seems to end an array element whose text is not JSON; None if there is none."""
    depth = 0
    position = start
    while True:
        found = _ANYTHING_FLAT.match(text, position, stop)
        position = found.end() if found else position
        if position >= stop:
            return None
        byte = text[position]
        if byte in _OPENING:
            depth += 1
        elif depth == 0 and byte in (_COMMA, _ARRAY_END):
            return position
        elif byte in _CLOSING:
            depth = max(depth - 1, 0)
        elif byte != _COMMA:
            return None  # a string without an end
        position += 1


def first_key(text: Text, start: int) -> bytes | None:
    """The first key, quotes included, of the object that begins at `start`."""
    found = _FIRST_KEY.match(text, start)
    return found.group(1) if found else None


def commonest_first_key(text: Text, start: int, window: int = 1 << 20) -> bytes | None:
    """The first key that most of the next objects have, where no earlier record tells which key records begin with."""
    keys = Counter(first_key(text, found.end()) for found in _LIKELY_RECORD.finditer(text, start, start + window))
    keys.pop(None, None)
    return keys.most_common(1)[0][0] if keys else None


def record_start(key: bytes) -> re.Pattern[bytes]:
    """Finds (as group 1) an object that begins with `key` where an array element may begin."""
    return re.compile(rb"[,}\]][ \t\n\r]*(?=(\{[ \t\n\r]*" + re.escape(key) + rb"[ \t\n\r]*:))")
