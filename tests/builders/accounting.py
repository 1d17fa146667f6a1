"""Nothing is lost and nothing counted twice: the whole lake against the landing folder, by readers of their own.

Nothing here uses the engine's way of reading files, splitting records, parsing events or counting windows.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_jobs.spec.replays import taken_from
from tests.builders.batch_over_silver import assert_gold_is_a_batch_over_silver
from tests.builders.stack import Stack

Row = dict[str, Any]


@dataclass(frozen=True)
class Accounted:
    """What was accounted for; a test names the figures that it knows. `proven_files`: read a second time by the independent reader."""

    files_ok: int
    files_failed: int
    files_ignored: int
    proven_files: int
    records: int
    bronze: int
    bronze_quarantined: int
    bronze_held: int
    silver: int
    quarantined: int
    duplicate: int
    held: int
    gold_windows: int


def assert_every_record_accounted_for(
    stack: Stack, *, waiting: Sequence[str] = (), unlisted: Collection[Path] = (), moved: Collection[str] = ()
) -> Accounted:
    """The accounting of everything that was ever listed. `waiting`: layers of which a stopped gate keeps batches back. `unlisted`: files
    that were changed after the last listing. `moved`: ids of events whose time a parser of the test reads otherwise than it stands there.

    Every object has a ledger row, every row an outcome or a reason; every record found is exactly once in bronze, its quarantine or held;
    every bronze record exactly once in silver, its quarantine, duplicates or held; the books' sums are the tables' rows; gold is a batch
    over silver. For a waiting layer, what it has not taken yet is missing as whole batches: the rest still holds.
    """
    outcomes = _assert_every_object_has_an_outcome_or_a_reason(stack, pending="bronze" in waiting, unlisted=unlisted)
    ok = {row["file_id"]: row for row in outcomes if row["outcome"] == "ok"}
    bronze = _assert_every_record_found_is_in_bronze_once(stack, ok)
    proven = _assert_an_independent_reader_finds_the_same(stack, ok, bronze)
    silver = _assert_every_bronze_record_is_on_the_silver_side_once(stack, bronze["records"], pending="silver" in waiting, moved=moved)
    _assert_the_books_are_the_tables(stack, bronze, silver)
    windows = assert_gold_is_a_batch_over_silver(stack, pending=bool(waiting))
    return Accounted(
        files_ok=len(ok), files_failed=len({row["file_id"] for row in outcomes} - set(ok)),
        files_ignored=sum(row["state"] == "ignored" for row in stack.rows("_ops.files", ["state"])), proven_files=proven,
        records=sum(row["records"] for row in ok.values()), bronze=len(bronze["records"]), bronze_quarantined=len(bronze["quarantine"]),
        bronze_held=len(bronze["held"]), silver=len(silver["events"]), quarantined=len(silver["quarantine"]),
        duplicate=len(silver["duplicates"]), held=len(silver["held"]), gold_windows=windows,
    )  # fmt: skip


def _assert_every_object_has_an_outcome_or_a_reason(stack: Stack, *, pending: bool, unlisted: Collection[Path]) -> list[Row]:
    ledger = stack.rows("_ops.files", ["path", "size", "version", "file_id", "attempt", "state", "reason"])
    entered = Counter((row["file_id"], row["attempt"]) for row in ledger)
    assert set(entered.values()) <= {1}, "a version of a file was entered twice"
    known = {(row["path"], row["size"], row["version"]) for row in ledger}
    for path in (Path(folder) / name for folder, _, names in os.walk(stack.landing) for name in names):
        status = path.stat()
        assert path in unlisted or (str(path), status.st_size, str(status.st_mtime_ns)) in known, (
            f"{path} is not in the ledger as it is now"
        )
    outcomes = stack.rows("_ops.file_outcomes")
    read = Counter((row["file_id"], row["attempt"]) for row in outcomes)
    assert set(read.values()) <= {1}, "one reading has two outcomes"
    for row in ledger:
        if row["state"] == "ignored":
            assert row["reason"], f"{row['path']} is ignored without a reason"
            assert (row["file_id"], row["attempt"]) not in read
    listed = {(row["file_id"], row["attempt"]) for row in ledger if row["state"] == "listed"}
    assert set(read) <= listed
    # A file that was read is not read again, and of two requests in one batch the newer one counts.
    done = {row["file_id"] for row in outcomes if row["outcome"] == "ok"}
    newest = {name: max(attempt for each, attempt in listed if each == name) for name, _ in listed - set(read)}
    assert pending or all(name in done or (name, attempt) in read for name, attempt in newest.items()), "a listed file has no outcome"
    for row in outcomes:
        assert row["outcome"] == "ok" or (row["rule"] and row["reason"] and row["records"] == 0), row
        assert row["outcome"] == "failed" or row["rule"] is None, row
    assert len([row for row in outcomes if row["outcome"] == "ok"]) == len(done), "one version of a file was read into bronze twice"
    return outcomes


def _assert_every_record_found_is_in_bronze_once(stack: Stack, ok: dict[str, Row]) -> dict[str, list[Row]]:
    bronze = {
        "records": stack.rows("bronze.cloudtrail_records"),
        "quarantine": stack.rows("bronze.cloudtrail_records_quarantine"),
        "held": stack.rows("bronze.cloudtrail_records_held"),
    }
    there = Counter(row["_rid"] for rows in bronze.values() for row in rows)
    assert set(there.values()) <= {1}, f"in bronze more than once: {[rid for rid, count in there.items() if count > 1][:5]}"
    batches = {row["batch_id"] for row in stack.rows("_ops.books") if row["layer"] == "bronze"}
    found = {f"{name}:{index}" for name, row in ok.items() if row["batch_id"] in batches for index in range(row["records"])}
    assert found == set(there), f"not in bronze: {sorted(found - set(there))[:5]}; never found: {sorted(set(there) - found)[:5]}"
    for row in (*bronze["records"], *bronze["held"]):
        assert row["_rid"] == f"{row['_file_id']}:{row['_record_index']}" and row["raw"] is not None
        assert (row["_source_file"], row["_file_sha256"]) == (ok[row["_file_id"]]["path"], ok[row["_file_id"]]["sha256"])
    for row in bronze["quarantine"]:
        assert row["rule"] and row["reason"] and row["raw_bytes"], row["_rid"]
    flawed = Counter(row["_file_id"] for row in bronze["quarantine"] if row["rule"] != "rejected")
    assert flawed == {name: row["quarantined"] for name, row in ok.items() if row["quarantined"] and row["batch_id"] in batches}
    return bronze


def _assert_an_independent_reader_finds_the_same(stack: Stack, ok: dict[str, Row], bronze: dict[str, list[Row]]) -> int:
    """Files that lie there as they were listed, read with plain gzip and json where those can: the same records in the same order."""
    by_file: dict[str, dict[int, str]] = {}
    for row in (*bronze["records"], *bronze["held"]):
        by_file.setdefault(row["_file_id"], {})[row["_record_index"]] = row["raw"]
    ledger = {row["file_id"]: row for row in stack.rows("_ops.files", ["file_id", "path", "size", "version"])}
    proven = 0
    for name, outcome in ok.items():
        records = records_of(ledger[name])
        if records is None or (records and name not in by_file):
            continue
        assert outcome["records"] == len(records), f"{outcome['path']}: {outcome['records']} records found, there are {len(records)}"
        for index, raw in by_file.get(name, {}).items():
            assert json.loads(raw) == records[index], f"{outcome['path']}: record {index} is another one"
        proven += 1
    return proven


def records_of(listed: Row) -> list[Any] | None:
    """The records of a file by plain gzip and json; None when it is not there as it was listed or these cannot read it."""
    path = Path(listed["path"])
    if not path.is_file() or (path.stat().st_size, str(path.stat().st_mtime_ns)) != (listed["size"], listed["version"]):
        return None
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        pairs = [pair for members in _documents(content.decode("utf-8-sig")) for pair in members]
    except (OSError, EOFError, zlib.error, ValueError, RecursionError):
        return None
    return [_plain(record) for key, value in pairs if key == "Records" for record in value]


def _documents(text: str) -> Iterator[_Pairs]:
    """The JSON objects that stand one after another; each as pairs, since a dict would keep only the last of two arrays under one key."""
    decoder = json.JSONDecoder(object_pairs_hook=_Pairs)
    while text := text.lstrip():
        members, end = decoder.raw_decode(text)
        yield members
        text = text[end:]


class _Pairs(list[tuple[str, Any]]):
    """An object as its members, repeated keys included."""


def _plain(value: Any) -> Any:
    if isinstance(value, _Pairs):
        return {key: _plain(member) for key, member in value}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _assert_every_bronze_record_is_on_the_silver_side_once(
    stack: Stack, records: list[Row], *, pending: bool, moved: Collection[str]
) -> dict[str, list[Row]]:
    silver = {
        "events": stack.rows("silver.cloudtrail_events"),
        "quarantine": stack.rows("silver.cloudtrail_events_quarantine"),
        "duplicates": stack.rows("silver.cloudtrail_events_duplicates"),
        "held": stack.rows("silver.cloudtrail_events_held"),
    }
    there = Counter(row["_rid"] for rows in silver.values() for row in rows)
    assert set(there.values()) <= {1}, f"on the silver side more than once: {[rid for rid, count in there.items() if count > 1][:5]}"
    raws = {row["_rid"]: row["raw"] for row in records}
    assert set(there) <= set(raws), f"not from bronze: {sorted(set(there) - set(raws))[:5]}"
    if not pending:
        assert set(there) == set(raws), f"lost between bronze and silver: {sorted(set(raws) - set(there))[:5]}"
    keys = Counter(row["event_id"] for row in silver["events"])
    assert set(keys.values()) <= {1}, f"events published twice: {[key for key, count in keys.items() if count > 1][:5]}"
    for row in (*silver["events"], *silver["held"]):
        record = json.loads(raws[row["_rid"]])
        assert (row["event_id"], row["event_name"]) == (record.get("eventID"), record.get("eventName"))
        assert row["event_time"].strftime("%Y-%m-%dT%H:%M:%S") == record["eventTime"][:19] or row["event_id"] in moved
        assert row["event_time"].date() == row["event_date"]
    for row in silver["quarantine"]:
        assert row["rule"] and row["reason"], row["_rid"]
        assert row["rule"] == "rejected" or row["raw"] == raws[row["_rid"]]
    for row in silver["duplicates"]:
        assert row["kept_rid"] in raws and row["kept_rid"] != row["_rid"]
        own, kept = raws[row["_rid"]], raws[row["kept_rid"]]
        assert json.loads(own)["eventID"] == json.loads(kept)["eventID"] == row["event_id"]
        assert row["is_conflicting"] == (own != kept)
    return silver


def _assert_the_books_are_the_tables(stack: Stack, bronze: dict[str, list[Row]], silver: dict[str, list[Row]]) -> None:
    books = stack.rows("_ops.books")
    assert all(row["is_balanced"] for row in books), [row["equation"] for row in books if not row["is_balanced"]]
    assert len({(row["table"], row["batch_id"]) for row in books}) == len(books), "a batch has two rows of books"
    for layer, rows in (("bronze", bronze), ("silver", silver)):
        mine = [row for row in books if row["layer"] == layer]
        # Rows that were held and are read again by a release or reject, or that a replay reads again from where they were.
        again = [(row, taken_from(row["batch_id"]) or ("held" if "." in row["batch_id"] else "")) for row in mine]
        main = rows["records" if layer == "bronze" else "events"]

        def standing(term: str, mine: list[Row] = mine, again: list[tuple[Row, str]] = again) -> int:
            return _sum(mine, term) - _sum((row for row, was in again if was == term), "read")

        assert standing("written") == len(main), layer
        assert standing("quarantined") == len(rows["quarantine"]), layer
        assert standing("duplicate") == len(rows.get("duplicates", [])), layer
        assert standing("held") == len(rows["held"]), layer
        assert _sum(mine, "read") - _sum((row for row, was in again if was), "read") == sum(len(each) for each in rows.values()), layer
    readings = [
        row for row in stack.rows("_ops.file_outcomes") if row["batch_id"] in {row["batch_id"] for row in books if row["layer"] == "bronze"}
    ]
    assert _sum(books, "files_ok") == sum(row["outcome"] == "ok" for row in readings)
    assert _sum(books, "files_failed") == sum(row["outcome"] == "failed" for row in readings)


def _sum(rows: Iterable[Row], term: str) -> int:
    return sum(row[term] for row in rows)
