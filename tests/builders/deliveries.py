"""Two small deliveries of CloudTrail files in which everything happens that fills a side table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.builders.events import event_text
from tests.builders.landing_files import document, log_path, packed


def text(number: int, **changes: object) -> bytes:
    return event_text(number, **changes).encode()


NOT_TEXT = b'{"eventVersion":"1.11","text":"\xff\xfe"}'
NO_EVENT_ID = text(90, eventID=...)
NO_TIME = text(91, eventTime="yesterday")
DENIED = {"errorCode": "AccessDenied", "errorMessage": "no"}
AGAIN = [text(13, eventTime="2024-05-01T09:15:00Z"), text(14, eventTime="2024-05-02T00:00:01Z"), text(10)]


def _log(records: Iterable[bytes]) -> bytes:
    return packed(document(records))


# Events 0-9 at 12:30; two of them come again in the second delivery, one of those with other content.
FIRST: dict[str, bytes] = {
    log_path(1): _log(text(n) for n in range(6)),
    log_path(2): _log([*(text(n, **DENIED) for n in range(6, 10)), NO_EVENT_ID]),
    log_path(3): _log(text(n) for n in range(100, 120))[:-30],  # cut off: no record is read
}
# In the order of names it is cut, after log 12, into two ledger files and so two bronze batches.
SECOND: dict[str, bytes] = {
    log_path(10): _log([text(3), text(10), text(11), NO_TIME]),  # event 3 again, the same
    log_path(11): _log([text(7, eventName="PutObject"), text(12, **DENIED), NOT_TEXT]),  # event 7 again, with other content
    log_path(12): b"this is no gzip",
    log_path(13): _log(AGAIN),  # event 10 in two files
    log_path(14): _log(AGAIN),  # the same again
    log_path(15): _log([NOT_TEXT, text(15, newField={"a": 1}), NO_EVENT_ID]),
    "AWSLogs/111122223333/CloudTrail-Digest/eu-west-1/2024/05/01/digest.json.gz": packed(b"{}"),
}
BATCH_FILES = 4
# Without the event that comes again with other content: which of the two is kept depends, as it should, on which came first.
ANY_ORDER: dict[str, bytes] = {**FIRST, **SECOND, log_path(11): _log([text(7, **DENIED), text(12, **DENIED), NOT_TEXT])}


def deliver(landing: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = landing / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
