"""Landed CloudTrail files, good and bad, as the bytes that lie in the store."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from spark_jobs.io.landed_file import LandedFile, file_id
from tests.builders.events import event

SAMPLE = Path(__file__).parents[2] / "infra" / "sample" / "cloudtrail"


def sample_files() -> list[Path]:
    """The files of the shipped sample, in the order of their names."""
    return sorted(SAMPLE.rglob("*.json.gz"))


def record_text(number: int) -> bytes:
    """One record as CloudTrail writes it: compact, on one line."""
    return json.dumps(event(number), separators=(",", ":")).encode()


def document(records: Iterable[bytes]) -> bytes:
    return b'{"Records":[' + b",".join(records) + b"]}"


def packed(content: bytes) -> bytes:
    """A gzip stream that is the same for the same content (no time in its header)."""
    return gzip.compress(content, 6, mtime=0)


def log_path(number: int = 0, suffix: str = ".json.gz", account: str = "111122223333", region: str = "eu-west-1") -> str:
    """The path below a landing root of an account's log file that covers 2024-05-01 12:30."""
    folder = f"AWSLogs/{account}/CloudTrail/{region}/2024/05/01"
    return f"{folder}/{account}_CloudTrail_{region}_20240501T1230Z_{number:016d}{suffix}"


def land(root: Path, stored: bytes, path: str) -> Path:
    """Writes the bytes of a file below the landing root."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(stored)
    return file


def listed(file: Path, attempt: int = 1, listed_at: datetime = datetime(2024, 5, 1, 13, tzinfo=UTC)) -> LandedFile:
    """What the file ledger says of a local file as it is now."""
    status = os.stat(file)
    version = str(status.st_mtime_ns)
    return LandedFile(str(file), status.st_size, version, file_id(str(file), status.st_size, version), attempt, listed_at)


@dataclass(frozen=True)
class FileCase:
    """One file and what reading it must find. `rule` is None where the file is read; `written` are its records' texts in order."""

    name: str
    stored: bytes
    rule: str | None = None
    written: Sequence[bytes] = ()
    quarantined: Sequence[tuple[str, bytes]] = ()  # rule and bytes
    heals: bool = False
    note: str | None = None  # a part of the notes
    suffix: str = ".json.gz"
    tags: frozenset[str] = field(default_factory=frozenset)


def flipped(stored: bytes, at: int) -> bytes:
    """One bit turned over."""
    return stored[:at] + bytes((stored[at] ^ 0x10,)) + stored[at + 1 :]


def deep_record(levels: int = 1_200) -> bytes:
    return b'{"eventVersion":"1.11","deep":' + b"[" * levels + b"]" * levels + b"}"


def bad_files() -> list[FileCase]:
    """Every way we know in which a landed file can be bad; what is readable in it must come out."""
    one, two, three = good = [record_text(number) for number in (1, 2, 3)]
    whole = document(good)
    stored = packed(whole)
    surrogate = b'{"eventVersion":"1.11","eventID":"e","text":"\\ud800"}'
    long_string = b'{"eventVersion":"1.11","text":"' + b"x" * 20_000_000 + b'"}'
    not_text = b'{"eventVersion":"1.11","text":"\xff\xfe"}'
    unended = two.replace(b'"eventTime":"', b'"eventTime":', 1)
    other = b'{"eventVersion":"1.11","eventID":}'
    return [
        FileCase("empty", b"", "empty_file"),
        FileCase("empty_inside", packed(b" \n"), "empty_file"),
        FileCase("truncated_gzip", stored[: len(stored) // 2], "truncated_gzip", heals=True),
        FileCase("gzip_without_trailer", stored[:-5], "truncated_gzip", heals=True),
        FileCase("gzip_of_one_byte", stored[:1], "truncated_gzip", heals=True),
        FileCase("second_member_truncated", stored + stored[:20], "truncated_gzip", heals=True),
        FileCase("flipped_bit_in_checksum", flipped(stored, len(stored) - 6), "corrupt_gzip"),
        FileCase("flipped_bit_in_length", flipped(stored, len(stored) - 2), "corrupt_gzip"),
        FileCase("not_gzip", whole, "not_gzip"),
        FileCase("trailing_bytes", stored + b"\0" * 7, written=good, note="7 bytes after the end of the gzip stream"),
        FileCase("one_trailing_byte", stored + b"\x1f", written=good, note="1 bytes after the end of the gzip stream"),
        FileCase("bomb", packed(b" " * 5_000_000), "inflates_too_large", tags=frozenset({"bound 1 MB"})),
        FileCase("two_members", packed(whole[:50]) + packed(whole[50:]), written=good),
        FileCase("two_documents", stored + packed(document([two])), written=[*good, two], note="2 JSON documents"),
        FileCase("plain", whole, written=good, suffix=".json"),
        FileCase("plain_truncated", whole[:-200], suffix=".json", written=good[:2],
                 quarantined=[("unreadable_remainder", three[: len(three) - 198])], note="cannot be divided"),
        FileCase("plain_truncated_between_records", whole[: -len(three) - 2], suffix=".json", written=good[:2], note="breaks off"),
        FileCase("byte_order_mark", packed(b"\xef\xbb\xbf" + whole), written=good, note="byte order mark"),
        FileCase("invalid_utf8", packed(document([one, not_text, three])), written=[one, three],
                 quarantined=[("invalid_utf8", not_text)]),
        FileCase("no_records_key", packed(b'{"digestEndTime":"2024-05-01T12:00:00Z"}'), "no_records_key"),
        FileCase("array_without_key", packed(b"[" + one + b"]"), "no_records_key"),
        FileCase("two_records_keys", packed(whole[:-1] + b',"Records":[' + two + b"]}"),
                 written=[*good, two], note="2 arrays"),
        FileCase("other_keys_beside", packed(b'{"a":{"Records":[1]},' + whole[1:-1] + b',"b":2}'), written=good, note="not read: a, b"),
        FileCase("records_not_array", packed(b'{"Records":{"eventVersion":"1.11"}}'), "records_not_array"),
        FileCase("records_null", packed(b'{"Records":null}'), "records_not_array"),
        FileCase("not_json", packed(b"<html>moved</html>"), "not_json"),
        FileCase("damage_before_the_records", packed(b'{"a":,' + whole[1:]), "not_json"),
        FileCase("no_records", packed(document([]))),
        FileCase("records_that_are_no_objects", packed(document([one, b"5", b'"x"', b"null", b"[]"])),
                 written=[one, b"5", b'"x"', b"null", b"[]"]),
        FileCase("garbage_between_commas", packed(document([one, b"garbage", other, three])), written=[one, three],
                 quarantined=[("not_json_record", b"garbage"), ("not_json_record", other)]),
        FileCase("string_without_end", packed(document([one, unended, three])), written=[one, three],
                 quarantined=[("not_json_record", unended)]),
        FileCase("last_brace_missing", packed(document([one, two[:-1], three])), written=[one, three],
                 quarantined=[("not_json_record", two[:-1])]),
        FileCase("comma_missing", packed(b'{"Records":[' + one + b" " + two + b"]}"), written=[one, two], note="1 comma(s)"),
        FileCase("duplicate_keys_in_a_record", packed(document([b'{"a":1,"a":2}'])), written=[b'{"a":1,"a":2}']),
        FileCase("lone_surrogate", packed(document([one, surrogate, three])), written=[one, surrogate, three]),
        FileCase("deep_nesting", packed(document([one, deep_record(), three])), written=[one, deep_record(), three]),
        FileCase("very_deep_nesting", packed(document([deep_record(200_000), three])), written=[deep_record(200_000), three]),
        FileCase("long_string", packed(document([one, long_string])), written=[one, long_string]),
        FileCase("rest_after_the_document", packed(whole + b"\n--\n"), written=good, quarantined=[("unreadable_remainder", b"--")],
                 note="something else"),
    ]  # fmt: skip
