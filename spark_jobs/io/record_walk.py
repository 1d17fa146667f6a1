"""The slow path of splitting: a walk over a document that a parser refused, so that one bad record never costs its siblings."""

from __future__ import annotations

import json
import re
from itertools import islice

import msgspec

from spark_jobs.io.json_extents import STRING, damaged_element_end, skip_space, value_end
from spark_jobs.io.landed_file import FileFault
from spark_jobs.io.record_pieces import NOT_JSON, REMAINDER, Flaw, Split, flaw_of_syntax, too_many_records
from spark_jobs.io.record_starts import RecordStarts

_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY, _COMMA = b"{}[],"
_ENDS_BY_ITSELF = frozenset(b'{["')  # a number or literal that breaks off can still look whole
# Bytes looked at in vain, beside four times the document, before the rest is given up: damage nested in damage would take time
# without bound. 200 MB take 3 s (40 s where they are mostly brackets).
MOST_WASTED = 200_000_000
_ENDS_THE_DOCUMENT = re.compile(rb"\][ \t\n\r]*\}[ \t\n\r]*\Z")


class RecordWalk:
    """Walks once from the beginning to the end of a document; `run` gives what `split_document` promises.

    What it does with damage: an element that is not JSON is one quarantined piece, which ends before the next text that begins like
    the file's other records (the same first key), or where its brackets close; if neither is found, the rest of the document is
    the piece.
    """

    def __init__(self, document: bytes | bytearray, records_key: str, max_records: int) -> None:
        self._document = document
        self._view = memoryview(document)
        self._end = len(document)
        self._at = 0
        self._records_key = records_key
        self._max_records = max_records
        self._split = Split()
        self._starts = RecordStarts(document)
        self._wasted = 0
        self._most_wasted = MOST_WASTED + 4 * self._end
        self._comma_is_due = False
        self._broke_off = False
        self._arrays = 0
        self._documents = 0
        self._not_arrays = 0
        self._gaps = 0
        self._other_keys: dict[str, None] = {}  # a set in order of appearance

    def run(self, begin: int) -> Split:
        self._at = skip_space(self._document, begin)
        if self._at >= self._end:
            raise FileFault("empty_file", "The file has no content: nothing but white space. Deliver it again if it should have records.")
        while self._at < self._end:
            goes_on = self._documents > 0 and (self._starts.is_at(self._at) or self._document[self._at] != _OPEN_OBJECT)
            if goes_on and not self._resume():  # damage that looked like the document's end
                break
            if not goes_on:
                if self._document[self._at] != _OPEN_OBJECT:
                    raise self._not_an_object()
                self._documents += 1
                self._at += 1
            if not self._walk_members():
                break
            self._skip_space()
        if not self._arrays:
            raise self._no_records()
        self._write_notes()
        return self._split

    def _walk_members(self) -> bool:
        """To behind the `}` of a document; False when it ends before that."""
        while True:
            self._skip_space()
            byte = self._byte()
            if byte == _CLOSE_OBJECT:
                self._at += 1
                return True
            if byte == _COMMA:
                self._at += 1
            elif not self._walk_member() and not self._resume():
                return False

    def _walk_member(self) -> bool:
        """One `key: value`; False when it is not that, with the position where it went wrong."""
        key = STRING.match(self._document, self._at)
        if not key:
            return False
        try:
            name = json.loads(str(key.group(), "utf-8", "replace"), strict=False)
        except ValueError:
            return False
        at = skip_space(self._document, key.end())
        if self._document[at : at + 1] != b":":
            return False
        at = skip_space(self._document, at + 1)
        if name == self._records_key and self._document[at : at + 1] == b"[":
            self._arrays += 1
            self._at = at + 1
            return self._walk_array()
        end = self._measure(at) if at < self._end else None
        if end is None:
            return False
        if name == self._records_key:
            self._not_arrays += 1
        else:
            self._other_keys[name] = None
        self._at = end
        return True

    def _resume(self) -> bool:
        """After damage outside of the records: goes on at the next record, with what was skipped as one piece; False at the end."""
        if not self._arrays:
            raise FileFault(
                "not_json",
                f"The document is not JSON from byte {self._at:,} of {self._end:,} on, before any record. Deliver the file again.",
            )
        at = self._at if self._starts.is_at(self._at) else self._starts.next_from(self._at)
        if at is None or self._wasted > self._most_wasted:
            self._rest(f"The document breaks off or goes on with something else from byte {self._at:,} on")
            return False
        self._add(self._at, at, (NOT_JSON, f"The bytes {self._at:,} to {at:,} of the document, between two records, are not JSON."))
        self._at = at
        self._gaps += 1
        return self._walk_array() or self._resume()

    def _walk_array(self) -> bool:
        """From the first element to behind the `]`; False when the document ends before that."""
        self._comma_is_due = False
        while True:
            self._skip_space()
            byte = self._byte()
            if byte is None:
                return False
            if byte == _CLOSE_ARRAY:
                self._at += 1
                return True
            if byte == _COMMA:
                self._gaps += not self._comma_is_due
                self._comma_is_due = False
                self._at += 1
                continue
            self._gaps += self._comma_is_due
            self._comma_is_due = True
            if not self._walk_element():
                return False

    def _walk_element(self) -> bool:
        start = self._at
        self._starts.learn(start)
        end = self._measure(start)
        if end is not None:
            if self._stands_alone(start, end) and not flaw_of_syntax(self._view[start:end]):
                self._add(start, end)
                self._at = end
                return True
            self._wasted += end - start
        return self._skip_damage(start)

    def _stands_alone(self, start: int, end: int) -> bool:
        """Whether what follows a value lets it be an element: the comma may be missing after an object or array."""
        follows = skip_space(self._document, end)
        if follows >= self._end:
            return self._document[start] in _ENDS_BY_ITSELF
        return self._document[follows] in b",]" or self._document[start] in b"{["

    def _skip_damage(self, start: int) -> bool:
        if self._wasted > self._most_wasted:
            self._rest(f"The document is damaged in too many places to be divided into records from byte {start:,} on")
            return False
        following = self._starts.next_from(start + 1)
        end = damaged_element_end(self._document, start, self._end if following is None else following)
        closes = end is not None and self._document[end] == _CLOSE_ARRAY
        if end is None or (closes and following is not None and not self._array_really_ends(end)):
            end, self._comma_is_due = following, False  # the comma is part of what is skipped
        if end is None:
            self._rest(f"The document cannot be divided into records from byte {start:,} on")
            return False
        self._add(start, end, (NOT_JSON, f"The bytes {start:,} to {end:,} of the document are not a JSON value."))
        self._at = end
        return True

    def _array_really_ends(self, bracket: int) -> bool:
        if _ENDS_THE_DOCUMENT.match(self._document, bracket):
            return True
        comma = skip_space(self._document, bracket + 1)
        key = skip_space(self._document, comma + 1)
        return self._document[comma : comma + 1] == b"," and self._document.startswith(json.dumps(self._records_key).encode(), key)

    def _measure(self, start: int) -> int | None:
        """The end of the value at `start`, or None; what was looked at in vain is counted."""
        end = value_end(self._document, start)
        self._wasted += ~end - start if end < 0 else 0
        return end if end >= 0 else None

    def _add(self, start: int, end: int, flaw: Flaw | None = None) -> None:
        if len(self._split.pieces) >= self._max_records:
            raise too_many_records(self._max_records)
        if flaw:
            end = start + len(bytes(self._view[start:end]).rstrip(b" \t\r\n,"))
            if end == start:
                return
            self._split.flaws[len(self._split.pieces)] = flaw
        self._split.pieces.append(msgspec.Raw(self._view[start:end]))

    def _rest(self, what: str) -> None:
        """All that is left is one piece; commas and white space alone are only noted."""
        if self._broke_off:
            return
        self._broke_off = True
        if bytes(self._view[self._at :]).strip(b" \t\r\n,"):
            self._add(self._at, self._end, (REMAINDER, f"{what}; these are its last {self._end - self._at:,} bytes."))
        self._split.notes.append(what[0].lower() + what[1:])
        self._at = self._end

    def _write_notes(self) -> None:
        notes = self._split.notes
        if self._documents > 1:
            notes.append(f"{self._documents} JSON documents one after another: the records of all were read")
        if self._arrays > self._documents:
            notes.append(f"{self._arrays} arrays under the key {self._records_key}: the records of all were read")
        if self._not_arrays:
            notes.append(f"{self._not_arrays} further key(s) {self._records_key} without an array were not read")
        if self._other_keys:
            notes.append(f"other top-level keys were not read: {self._names()}")
        if self._gaps:
            notes.append(f"{self._gaps} comma(s) between records are missing or too many")

    def _names(self) -> str:
        shown = ", ".join(name[:60].encode("utf-8", "replace").decode() for name in islice(self._other_keys, 10))
        return shown + (f" and {len(self._other_keys) - 10} more" if len(self._other_keys) > 10 else "")

    def _not_an_object(self) -> FileFault:
        end = value_end(self._document, self._at)
        if end < 0 or skip_space(self._document, end) < self._end or flaw_of_syntax(self._view[self._at : end]):
            begin = bytes(self._document[self._at : self._at + 4]).hex(" ")
            return FileFault("not_json", f"The content is not JSON: it begins with the bytes {begin}. Deliver the file again.")
        return FileFault("no_records_key", f"The document is a JSON value without keys, not an object with the key {self._records_key}.")

    def _no_records(self) -> FileFault:
        if self._not_arrays:
            return FileFault("records_not_array", f"The value of the key {self._records_key} is not an array, so it holds no records.")
        return FileFault("no_records_key", f"The document has no key {self._records_key}; its keys: {self._names() or 'none'}.")

    def _skip_space(self) -> None:
        self._at = skip_space(self._document, self._at)

    def _byte(self) -> int | None:
        return self._document[self._at] if self._at < self._end else None
