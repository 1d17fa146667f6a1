"""Where a JSON value ends, found without recursion: regular expressions jump over everything between two brackets.

These functions only measure. Whether the measured text is JSON is judged by a parser afterwards.
"""

from __future__ import annotations

import re

STRING_PATTERN = rb'"(?:[^"\\]++|\\.)*+"'
_LITERAL = rb"(?:-?[0-9][0-9.eE+\-]*+|true|false|null)"
_SPACE = re.compile(rb"[ \t\n\r]*+")
STRING = re.compile(STRING_PATTERN, re.DOTALL)
LITERAL = re.compile(_LITERAL)
_BETWEEN_BRACKETS = re.compile(rb"(?:[ \t\n\r,:]++|" + STRING_PATTERN + rb"|" + _LITERAL + rb")*+", re.DOTALL)
_ANYTHING_FLAT = re.compile(rb'(?:[^"\[\]{},]++|' + STRING_PATTERN + rb")*+", re.DOTALL)

_OPENING = {ord("{"): ord("}"), ord("["): ord("]")}
_CLOSING = frozenset(b"}]")
_COMMA, _ARRAY_END = ord(","), ord("]")

Text = bytes | bytearray


def skip_space(text: Text, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def value_end(text: Text, start: int) -> int:
    """The end of the value that begins at `start`. Where there is none: the complement `~position` (negative) of the first byte that
    no JSON value can have there, which is the end of the text for a value that breaks off."""
    first = text[start]
    if first not in _OPENING:
        found = (STRING if first == 0x22 else LITERAL).match(text, start)
        return found.end() if found else ~start
    expected = bytearray((_OPENING[first],))
    position = start + 1
    end = len(text)
    between = _BETWEEN_BRACKETS.match
    while expected:
        found = between(text, position)
        position = found.end() if found else position
        if position >= end:
            return ~end
        byte = text[position]
        if byte in _OPENING:
            expected.append(_OPENING[byte])
        elif byte == expected[-1]:
            expected.pop()
        else:
            return ~position
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
