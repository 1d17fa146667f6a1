"""From the bytes of a document to the exact bytes of its records, without re-serialising anything."""

from __future__ import annotations

import json
import re
from collections import Counter

import msgspec

from spark_jobs.io.record_pieces import Split, flaw_of_encoding, is_utf8, too_many_records
from spark_jobs.io.record_walk import RecordWalk

# Each record costs 60 to 300 bytes beside its text: a document of 200 MB made of two-byte records would need tens of gigabytes.
MAX_RECORDS = 2_000_000

_BOM = b"\xef\xbb\xbf"
_TAIL = re.compile(rb"\][ \t\n\r]*\}[ \t\n\r]*\Z")
_TAIL_WINDOW = 64


def split_document(document: bytes | bytearray, *, records_key: str, max_records: int = MAX_RECORDS) -> Split:
    """The elements of the array under `records_key`, each with the very bytes it has in the document.

    The pieces are views of `document`, which must not change while they are used. An element that is not an object is a
    record like any other. Raises FileFault empty_file, not_json, no_records_key, records_not_array, too_many_records.
    """
    begin = len(_BOM) if document.startswith(_BOM) else 0
    is_text = is_utf8(document)
    split = split_plain(document, begin, records_key, max_records)
    if split is None:
        split = RecordWalk(document, records_key, max_records).run(begin)
    if not is_text:
        for index, piece in enumerate(split.pieces):
            if index not in split.flaws and (flaw := flaw_of_encoding(memoryview(piece))):
                split.flaws[index] = flaw
    if begin:
        split.notes.insert(0, "a byte order mark at the beginning was left out")
    if split.flaws:
        rules = Counter(rule for rule, _ in split.flaws.values())
        split.notes.append("quarantined: " + ", ".join(f"{count} {rule}" for rule, count in sorted(rules.items())))
    return split


def split_plain(document: bytes | bytearray, begin: int, records_key: str, max_records: int) -> Split | None:
    """The fast path, for a document that is nothing but `{"<records_key>": [ … ]}`; None when it is anything else.

    The first and the last bytes are matched by hand and the parser has to accept all that is between them as one array, so no
    other key, no second `records_key` and no rest can hide.
    """
    head = _head(records_key).match(document, begin)
    tail = _TAIL.search(document, max(begin, len(document) - _TAIL_WINDOW))
    if not head or not tail:
        return None
    if len(document) > max_records and document.count(b",") > 4 * max_records:
        return None  # more elements than this cannot be ruled out, and the parser would hold them all
    try:
        pieces = _elements(memoryview(document)[head.end() : tail.start() + 1])
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    if len(pieces) > max_records:
        raise too_many_records(max_records)
    return Split(pieces)


def _elements(array: memoryview) -> list[msgspec.Raw]:
    return msgspec.json.decode(array, type=list[msgspec.Raw])


def _head(records_key: str) -> re.Pattern[bytes]:
    key = re.escape(json.dumps(records_key).encode())
    return re.compile(rb"[ \t\n\r]*\{[ \t\n\r]*" + key + rb"[ \t\n\r]*:[ \t\n\r]*(?=\[)")
