"""What a typed JSON reader hides: unknown fields, repeated keys, wrong types, broken text. Pure Python, one record at a time.

The fast path is a proof by length. A record is decoded into structs built from its shape and encoded again. The encoder writes the
shortest form of what was read, so the two lengths are equal only when nothing was lost on the way: no key came twice, no space and
no long escape stood between. Whatever does not add up goes through the exact path, which names what it found.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Union

import msgspec
from msgspec import UNSET, Raw, UnsetType

MAX_DEPTH = 1_000  # Jackson's StreamReadConstraints: what is deeper, Spark cannot read
MAX_STRING = 20_000_000  # characters; the same

Shape = Mapping[str, Any]
"""Field name to kind: "text", "flag", "json" (free-form object or array), a Shape (an object), or [Shape] (an array of objects)."""


class Finding(NamedTuple):
    """What was found: a broken rule with its reason, or fields to rescue (a JSON object from path to exact value)."""

    rule: str | None
    reason: str | None
    rescued: str | None


class _Broken(Exception):
    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.finding = Finding(rule, reason, None)


class JsonInspector:
    """Compares records with a shape. Build one for each shape and keep it: building it makes classes."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._read = msgspec.json.Decoder(_struct("Record", shape)).decode
        self._write = msgspec.json.Encoder().encode

    def inspect(self, raw: bytes) -> Finding | None:
        """None when the record has its shape and nothing besides; the record is one JSON text in UTF-8."""
        try:
            record = self._read(raw)
            if len(self._write(record)) == len(raw) <= MAX_STRING and b"\\ud" not in raw and b"\\uD" not in raw:
                return None
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            pass
        return self._inspect_exactly(raw)

    def _inspect_exactly(self, raw: bytes) -> Finding | None:
        rescued: list[tuple[str, bytes]] = []
        try:
            _check_text(raw)
            with _room_for_depth():
                if _KINDS.get(_parsed(raw)[:1], "a number") != "an object":
                    raise _Broken("not_an_object", f"The record is {_KINDS.get(raw.strip()[:1], 'a number')}, not an object.")
                self._walk(self._shape, raw, "$", rescued)
        except _Broken as fault:
            return fault.finding
        if not rescued:
            return None
        members = b",".join(msgspec.json.encode(path) + b":" + value for path, value in rescued)
        return Finding(None, None, (b"{" + members + b"}").decode())

    def _walk(self, shape: Shape, raw: bytes | Raw, path: str, rescued: list[tuple[str, bytes]]) -> None:
        members = _read_members(raw)
        if sum(map(len, members)) + sum(map(len, members.values())) + 4 * len(members) + 1 != len(raw):
            _check_keys(bytes(raw), path)
        for name, value in members.items():
            kind = shape.get(name)
            if kind is None:
                rescued.append((_join(path, name), bytes(value)))
                continue
            first = bytes(memoryview(value)[:1])
            if first == b"n":
                continue
            got, wanted = _KINDS.get(first, "a number"), _wanted(kind)
            if got not in wanted:
                raise _Broken("wrong_type", f"{_join(path, name)} is {got} where {' or '.join(wanted)} belongs.")
            if isinstance(kind, Mapping):
                self._walk(kind, value, _join(path, name), rescued)
            elif isinstance(kind, list):
                for index, item in enumerate(_read_items(value)):
                    place = f"{_join(path, name)}[{index}]"
                    first = bytes(memoryview(item)[:1])
                    if first == b"{":
                        self._walk(kind[0], item, place, rescued)
                    elif first != b"n":
                        raise _Broken("wrong_type", f"{place} is {_KINDS.get(first, 'a number')} where an object belongs.")


_KINDS = {b"{": "an object", b"[": "an array", b'"': "a string", b"t": "a boolean", b"f": "a boolean", b"n": "null"}
_read_members = msgspec.json.Decoder(dict[str, Raw]).decode
_read_items = msgspec.json.Decoder(list[Raw]).decode


def _struct(name: str, shape: Shape) -> type[msgspec.Struct]:
    return msgspec.defstruct(
        name, [(field, _type_of(field, kind), UNSET) for field, kind in shape.items()], forbid_unknown_fields=True, gc=False
    )


def _type_of(field: str, kind: Any) -> Any:
    types: dict[str, Any] = {"text": str, "flag": bool, "json": Union[dict[str, Raw], list[Raw]]}
    if isinstance(kind, Mapping):
        inner: Any = _struct(field, kind)
    elif isinstance(kind, list):
        inner = list[Union[_struct(field, kind[0]), None]]  # type: ignore[misc]  # a class made at run time
    else:
        inner = types[kind]
    return Union[inner, None, UnsetType]


def _wanted(kind: Any) -> tuple[str, ...]:
    if isinstance(kind, str):
        return {"text": ("a string",), "flag": ("a boolean",), "json": ("an object", "an array")}[kind]
    return ("an array",) if isinstance(kind, list) else ("an object",)


def _join(path: str, name: str) -> str:
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return f"{path}.{name}"
    quoted = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"{path}['{quoted}']"


_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(_STRING + rb"|[{}\[\]:,]", re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def _check_text(raw: bytes) -> None:
    """Raises _Broken for text that no reader could take: too deep, too long a string, half a surrogate pair, no text at all."""
    if not raw.strip():
        raise _Broken("unparseable_json", "The record is empty.")
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and (depth := _depth(raw)) > MAX_DEPTH:
        raise _Broken("too_deep", f"The record is nested {depth} levels deep; {MAX_DEPTH} can be read.")
    if len(raw) > MAX_STRING:
        longest = max((_characters(found[0]) for found in re.finditer(_STRING, raw, re.DOTALL)), default=0)
        if longest > MAX_STRING:
            raise _Broken("string_too_long", f"The record holds a string of {longest:,} characters; {MAX_STRING:,} can be read.")
    if (b"\\ud" in raw or b"\\uD" in raw) and (half := _lone_surrogate(raw)):
        raise _Broken("lone_surrogate", f"The record holds \\u{half}, half of a surrogate pair, which is no character.")


def _characters(string: bytes) -> int:
    """Length of a JSON string's value; both quotes are in `string`. Decoded only where that can matter."""
    if len(string) - 2 <= MAX_STRING:
        return 0
    try:
        return len(str(msgspec.json.decode(string)).encode("utf-16-le")) // 2  # Java counts UTF-16 units
    except (msgspec.MsgspecError, UnicodeError):
        return len(string) - 2


def _depth(raw: bytes) -> int:
    depth = deepest = 0
    for token in _TOKEN.finditer(raw):
        first = raw[token.start()]
        if first in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif first in b"}]":
            depth -= 1
    return deepest


def _lone_surrogate(raw: bytes) -> str | None:
    """The first half of a pair that stands alone, as four hex digits."""
    high: str | None = None
    end = -1
    for escape in _ESCAPE.finditer(raw):
        digits = escape[1].decode() if escape[1] else ""
        is_low = "dc" <= digits[:2].lower() <= "df" and len(digits) == 4
        if high and (not is_low or escape.start() != end):
            return high
        if is_low and not high:
            return digits
        high = digits if "d8" <= digits[:2].lower() <= "db" and len(digits) == 4 else None
        end = escape.end()
    return high


def _parsed(raw: bytes) -> bytes:
    """The record without surrounding space; raises _Broken when it is not one JSON text."""
    try:
        return bytes(msgspec.json.decode(raw, type=Raw))
    except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
        reason = str(fault).removeprefix("JSON is malformed: ")
        raise _Broken("unparseable_json", f"The record is not one JSON text: {reason}.") from None


def _check_keys(raw: bytes, path: str) -> None:
    """Raises _Broken when the outermost object of `raw` has a key twice (after unescaping)."""
    seen: set[str] = set()
    for key in _outer_keys(raw):
        if key in seen:
            raise _Broken("duplicate_key", f"{_join(path, key)} is there more than once, with only one place for its value.")
        seen.add(key)


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


@contextmanager
def _room_for_depth() -> Iterator[None]:
    """Up to Python 3.11 a C recursion counts as a Python one, so 1,000 levels of JSON need more room than the default 1,000."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 4 * MAX_DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
