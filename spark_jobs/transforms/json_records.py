"""Read JSON records by a shape and notice everything that does not fit it. Pure Python, one record at a time.

The fast path is a proof by length. A record is decoded into classes made from its shape and encoded again. The encoder writes the
shortest form of what was read, so both lengths are equal only when nothing was lost on the way: no key came twice, no null, space or
long escape stood between. What does not add up takes the loose path, which finds unknown fields and nulls by the same arithmetic for
each object (a new field of the source is in every record from one day to the next); and what does not add up there either goes the
exact way, which finds the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from spark_jobs.transforms.json_faults import MAX_STRING, BrokenRecord, check_text, repeated_key, room_for_depth

Shape = Mapping[str, Any]
"""Field name to kind: "text", "flag", "json" (free-form object or array), a Shape (an object), or [Shape] (an array of objects)."""

Record = msgspec.Struct
"""A record that was read: an attribute for each field of the shape. None where the field is absent or null; a free-form part is Raw or
UNSET; objects are Records in turn."""


class Finding(NamedTuple):
    """A broken rule with its reason, or `rescued`: a JSON object from path to exact value of the fields that the shape does not know."""

    rule: str | None
    reason: str | None
    rescued: str | None


class JsonReader:
    """Reads records of one shape. Building one makes classes, so keep it."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._read_known = msgspec.json.Decoder(_class_for("Record", shape, only_known=True)).decode
        self._read_any = msgspec.json.Decoder(_class_for("Record", shape, only_known=False)).decode
        self._write = msgspec.json.Encoder().encode

    def read(self, raws: Sequence[bytes]) -> tuple[list[Record | None], list[Finding | None]]:
        """The records, None for each that is broken; and the findings, None for each that has its shape and nothing besides.

        The kinds of free-form parts are not looked at (`is_free_form` does that for many at once).
        """
        read, write = self._read_known, self._write
        records: list[Record | None] = []
        findings: list[Finding | None] = []
        for raw in raws:
            record: Record | None = None
            finding = None
            try:
                record = read(raw)
                if len(write(record)) != len(raw) or len(raw) > MAX_STRING:
                    record, finding = self._read_loosely(raw)
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                record, finding = self._read_loosely(raw)
            records.append(record)
            findings.append(finding)
        return records, findings

    def read_exactly(self, raws: Sequence[bytes]) -> tuple[list[Record | None], list[Finding | None]]:
        """The same without the fast path, and with free-form parts that are no objects or arrays found (rule wrong_type)."""
        pairs = [self._read_exactly(raw) for raw in raws]
        return [record for record, _ in pairs], [finding for _, finding in pairs]

    def _read_loosely(self, raw: bytes) -> tuple[Record | None, Finding | None]:
        rescued: list[tuple[str, bytes]] = []
        try:
            record: Record = self._read_any(raw)
            if len(raw) <= MAX_STRING and _adds_up(self.shape, raw, "$", rescued):
                return record, _rescue(rescued)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            pass
        return self._read_exactly(raw)

    def _read_exactly(self, raw: bytes) -> tuple[Record | None, Finding | None]:
        record: Record
        rescued: list[tuple[str, bytes]] = []
        try:
            with room_for_depth():
                check_text(raw)
                whole = msgspec.json.decode(raw, type=Raw)
                if (kind := _kind(whole)) != "an object":
                    raise BrokenRecord("not_an_object", f"The record is {kind}, not an object.")
                self._walk(self.shape, whole, "$", rescued)
                record = self._read_any(raw)
        except BrokenRecord as fault:
            return None, Finding(fault.rule, fault.reason, None)
        return record, _rescue(rescued)

    def _walk(self, shape: Shape, raw: Raw, path: str, rescued: list[tuple[str, bytes]]) -> None:
        members = _read_members(raw)
        if _length(members) != len(raw) and (key := repeated_key(bytes(raw))) is not None:
            raise BrokenRecord("duplicate_key", f"{_join(path, key)} is there more than once, with only one place for its value.")
        for name, value in members.items():
            wanted = shape.get(name)
            if wanted is None:
                rescued.append((_join(path, name), bytes(value)))
            elif (kind := _kind(value)) != "null":
                self._check_kind(wanted, kind, value, _join(path, name), rescued)

    def _check_kind(self, wanted: Any, kind: str, value: Raw, path: str, rescued: list[tuple[str, bytes]]) -> None:
        allowed = _allowed(wanted)
        if kind not in allowed:
            raise BrokenRecord("wrong_type", f"{path} is {kind} where {' or '.join(allowed)} belongs.")
        if isinstance(wanted, Mapping):
            self._walk(wanted, value, path, rescued)
        elif isinstance(wanted, list):
            for index, item in enumerate(_read_items(value) or ()):
                if (item_kind := _kind(item)) != "null":
                    self._check_kind(wanted[0], item_kind, item, f"{path}[{index}]", rescued)


_KINDS = {"{": "an object", "[": "an array", '"': "a string", "t": "a boolean", "f": "a boolean", "n": "null"}
_read_members = msgspec.json.Decoder(dict[str, Raw]).decode
_read_items = msgspec.json.Decoder(list[Raw] | None).decode


def _adds_up(shape: Shape, raw: bytes | Raw, path: str, rescued: list[tuple[str, bytes]]) -> bool:
    """False when an object of the shape has spaces, long escapes in its keys or a key that comes twice; types are right already."""
    members = _read_members(raw)
    if _length(members) != len(raw):
        return False
    for name, value in members.items():
        wanted = shape.get(name)
        if isinstance(wanted, str):
            continue
        if wanted is None:
            rescued.append((_join(path, name), bytes(value)))
        elif isinstance(wanted, list):
            for index, item in enumerate(_read_items(value) or ()):
                if _kind(item) != "null" and not _adds_up(wanted[0], item, f"{path}.{name}[{index}]", rescued):
                    return False
        elif _kind(value) != "null" and not _adds_up(wanted, value, f"{path}.{name}", rescued):
            return False
    return True


def _length(members: dict[str, Raw]) -> int:
    """Length of an object's shortest form: two quotes and a colon for each member, commas between, two braces."""
    return sum(map(len, members)) + sum(map(len, members.values())) + max(4 * len(members) + 1, 2)


def _rescue(fields: list[tuple[str, bytes]]) -> Finding | None:
    if not fields:
        return None
    members = b",".join(msgspec.json.encode(path) + b":" + value for path, value in fields)
    return Finding(None, None, (b"{" + members + b"}").decode())


def _kind(value: Raw) -> str:
    return _KINDS.get(chr(memoryview(value)[0]), "a number")


def _allowed(wanted: Any) -> tuple[str, ...]:
    if isinstance(wanted, str):
        return {"text": ("a string",), "flag": ("a boolean",), "json": ("an object", "an array")}[wanted]
    return ("an array",) if isinstance(wanted, list) else ("an object",)


def _class_for(name: str, shape: Shape, *, only_known: bool) -> type[Record]:
    """A class for the objects of a shape. Defaults are not written again, so an absent field has length 0 in the proof."""

    def field(name: str, wanted: Any) -> tuple[str, Any, Any]:
        if isinstance(wanted, Mapping):
            return name, _class_for(name, wanted, only_known=only_known) | None, None
        if isinstance(wanted, list):
            return name, list[_class_for(name, wanted[0], only_known=only_known) | None] | None, None  # type: ignore[misc]
        if wanted == "json":
            return name, Raw | UnsetType, UNSET
        return name, (str if wanted == "text" else bool) | None, None

    fields = [field(name, wanted) for name, wanted in shape.items()]
    return msgspec.defstruct(name, fields, forbid_unknown_fields=only_known, omit_defaults=True, gc=False)


def _join(path: str, name: str) -> str:
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return f"{path}.{name}"
    quoted = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"{path}['{quoted}']"
