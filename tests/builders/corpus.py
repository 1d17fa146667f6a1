"""A landing folder of bad input: one file for each way in which files and records can be bad, with good records beside each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.builders.events import event
from tests.builders.landing_files import deep_record, document, flipped, packed

FOLDER = "AWSLogs/111122223333/CloudTrail/eu-west-1/2024/05/01"
BOUND_MB = 256  # settings.max_inflated_mb


@dataclass(frozen=True)
class BadFile:
    """One landed file and what must become of it in the run that reads it.

    A file that fails has `rule` and `reason`, a part of its reason. In one that is read, `published` are the ids of its events that
    reach silver; `quarantined` (silver), `refused` (bronze quarantine) and `repeated` (duplicates: is it conflicting?) are keyed by record
    index; `note` is a part of its notes. `rescued`: record index to what `_rescued` holds.
    """

    name: str
    stored: bytes
    rule: str = ""
    reason: str = ""
    heals: bool = False
    note: str = ""
    published: tuple[str, ...] = ()
    quarantined: Mapping[int, str] = field(default_factory=dict)
    refused: Mapping[int, str] = field(default_factory=dict)
    repeated: Mapping[int, bool] = field(default_factory=dict)
    rescued: Mapping[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"{FOLDER}/{self.name}"


_numbers = count(1_000)


def _text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _good() -> dict[str, Any]:
    """A good event, unlike any other of the corpus."""
    return event(next(_numbers))


def _broken_gzip() -> Iterator[BadFile]:
    def good_file() -> bytes:
        return packed(document([_text(_good()) for _ in range(3)]))

    whole = good_file()
    yield BadFile("truncated.json.gz", whole[: len(whole) // 2], "truncated_gzip", "cut off", heals=True)
    whole = good_file()
    yield BadFile("bit_flipped.json.gz", flipped(whole, len(whole) - 6), "corrupt_gzip", "damaged")
    whole = good_file()
    yield BadFile("bit_flipped_inside.json.gz", flipped(whole, len(whole) // 2), "corrupt_gzip", "damaged")
    yield BadFile("not_a_gz.json.gz", document([_text(_good())]), "not_gzip", "not gzip")
    yield BadFile("empty.json.gz", b"", "empty_file", "no bytes")
    spaces = packed(b" " * 1_000_000)
    bomb = spaces * (1_000_000 // len(spaces))  # 1 MB of members that inflate to about 1 GB
    yield BadFile("bomb.json.gz", bomb, "inflates_too_large", "256,000,000")
    first, second = _good(), _good()
    stored = packed(document([_text(first), _text(second)])) + b"\0" * 7
    yield BadFile("trailing_bytes.json.gz", stored, note="7 bytes after the end", published=_ids(first, second))


def _broken_documents() -> Iterator[BadFile]:
    one, two = _good(), _good()
    yield BadFile(
        "bom.json.gz", packed(b"\xef\xbb\xbf" + document([_text(one), _text(two)])), note="byte order mark", published=_ids(one, two)
    )
    yield BadFile("no_records.json.gz", packed(b'{"Events":[]}'), "no_records_key", "no key Records")
    yield BadFile("records_is_an_object.json.gz", packed(b'{"Records":{"a":1}}'), "records_not_array", "not an array")
    yield BadFile("no_json.json.gz", packed(b"<html>Service Unavailable</html>"), "not_json", "not JSON")
    one, two, three = _good(), _good(), _good()
    twice = document([_text(one)])[:-1] + b"," + document([_text(two), _text(three)])[1:]
    yield BadFile("two_records_keys.json.gz", packed(twice), note="2 arrays", published=_ids(one, two, three))
    before, after, bad = _good(), _good(), _text(_good())
    texts = [_text(before), bad[:-1] + b',"userAgent":"\xff\xfe"}', _text(after)]
    yield BadFile("invalid_utf8.json.gz", packed(document(texts)), published=_ids(before, after), refused={1: "invalid_utf8"})
    before, after = _good(), _good()
    texts = [_text(before), b'{"eventID":}', b"garbage", _text(after)]
    refused = {1: "not_json_record", 2: "not_json_record"}
    yield BadFile("no_json_record.json.gz", packed(document(texts)), published=_ids(before, after), refused=refused)


def _among_good(name: str, bad: bytes, rule: str) -> BadFile:
    """A good record, a bad one, a good one: silver publishes two and quarantines one."""
    before, after = _good(), _good()
    return BadFile(
        f"{name}.json.gz", packed(document([_text(before), bad, _text(after)])), published=_ids(before, after), quarantined={1: rule}
    )


def _broken_records() -> Iterator[BadFile]:
    for name, bad in {"number": b"5", "string": b'"x"', "null": b"null", "array": b"[]"}.items():
        yield _among_good(f"record_is_{name}", bad, "not_an_object")
    changes: dict[str, tuple[dict[str, Any], str]] = {
        "event_id_missing": ({"eventID": ...}, "missing_event_id"),
        "event_id_null": ({"eventID": None}, "missing_event_id"),
        "event_id_blank": ({"eventID": "  "}, "missing_event_id"),
        "time_missing": ({"eventTime": ...}, "missing_event_time"),
        "time_unparseable": ({"eventTime": "yesterday"}, "event_time_unparseable"),
        "time_without_zone": ({"eventTime": "2024-05-01T12:00:00"}, "event_time_unparseable"),
        "time_24_00_00": ({"eventTime": "2024-05-01T24:00:00Z"}, "event_time_unparseable"),
        "time_23_59_60": ({"eventTime": "2016-12-31T23:59:60Z"}, "event_time_unparseable"),
        "time_february_30": ({"eventTime": "2024-02-30T12:00:00Z"}, "event_time_unparseable"),
        "time_2099": ({"eventTime": "2099-01-01T00:00:00Z"}, "event_time_in_future"),
        "time_year_1": ({"eventTime": "0001-01-01T00:00:00Z"}, "event_time_too_old"),
        "flag_is_text": ({"readOnly": "yes"}, "wrong_type"),
        "text_is_number": ({"awsRegion": 5}, "wrong_type"),
        "object_is_text": ({"userIdentity": "somebody"}, "wrong_type"),
        "free_form_is_number": ({"requestParameters": 1}, "wrong_type"),
        "array_is_object": ({"resources": {"type": "x"}}, "wrong_type"),
        "long_string": ({"requestParameters": {"text": "x" * 20_971_520}}, "string_too_long"),
    }
    for name, (change, rule) in changes.items():
        yield _among_good(name, _text(event(next(_numbers), **change)), rule)
    yield _among_good("nested_1200_levels", deep_record(1_200), "too_deep")
    yield _among_good("lone_surrogate", _text(_good())[:-1] + b',"x":"\\ud800"}', "lone_surrogate")
    yield _among_good("duplicate_keys", _text(_good())[:-1] + b',"eventName":"Other"}', "duplicate_key")


def _unusual_but_good() -> Iterator[BadFile]:
    known = _good()
    known["newField"] = {"a": [1.10, None]}
    known["userIdentity"]["sessionContext"]["newPart"] = "deep"
    known["resources"] = [*known["resources"], {"ARN": "arn:aws:s3:::other", "owner-id": 7}]
    found = {"$.newField": {"a": [1.1, None]}, "$.userIdentity.sessionContext.newPart": "deep", "$.resources[1]['owner-id']": 7}
    yield BadFile("unknown_fields.json.gz", packed(document([_text(known)])), published=_ids(known), rescued={0: found})
    free = _good()
    inside = _text(free).replace(b'"bucketName":"example"', b'"key":1,"key":1.10')
    yield BadFile("duplicate_keys_in_free_form.json.gz", packed(document([inside])), published=_ids(free))
    for name in ("_underscore.json.gz", ".dot.json.gz", "old_time.json.gz", "plain.json"):
        one = _good()
        stored = document([_text(one)])
        yield BadFile(name, packed(stored) if name.endswith(".gz") else stored, published=_ids(one))
    # 'a' sorts before 'b', so of one batch the first name is the first arrival.
    one, two = _good(), _good()
    both = packed(document([_text(one), _text(two)]))
    yield BadFile("a_copied.json.gz", both, published=_ids(one, two))
    yield BadFile("b_copy_of_it.json.gz", both, repeated={0: False, 1: False})
    one, two = _good(), _good()
    yield BadFile(
        "a_first_file.json.gz", packed(document([_text(one), _text(two), _text(two)])), published=_ids(one, two), repeated={2: False}
    )
    changed = _text({**two, "errorCode": "AccessDenied"})
    yield BadFile("b_second_file.json.gz", packed(document([_text(one), changed])), repeated={0: False, 1: True})


def _ids(*events: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(one["eventID"] for one in events)


def good_file(*numbers: int, **changes: Any) -> bytes:
    """A gz of the events with these numbers."""
    return packed(document([_text(event(number, **changes)) for number in numbers]))


BAD_FILES: tuple[BadFile, ...] = (*_broken_gzip(), *_broken_documents(), *_broken_records(), *_unusual_but_good())

IGNORED = {
    "copying.json.gz.tmp": "a temporary name",
    "_SUCCESS": "a marker file",
    "notes.txt": "its name is not a log's",
    "x_CloudTrail-Digest_y.json.gz": "a CloudTrail digest file",
}
"""Names of objects that are not logs, and the reason that the ledger must give."""
