"""Rows of the `_ops` and lake tables, and a small lake of them without a JVM. The defaults are valid: a test names what it is about."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from spark_jobs.io.ops import SCHEMAS, Ops
from spark_jobs.spec.books import Books
from spark_jobs.spec.settings import Settings, load_settings
from spark_jobs.spec.tables import BOOKS, FILE_OUTCOMES, FILES, TableId

NOW = datetime(2024, 5, 2, 10, 0, tzinfo=UTC)
RUN = "scheduled__2024-05-02T09:10:00+00:00"
BATCH = "v1-00000000"
BRONZE, SILVER = TableId("bronze", "cloudtrail_records"), TableId("silver", "cloudtrail_events")
ACTIVITY, DENIED = TableId("gold", "cloudtrail_activity_1h"), TableId("gold", "cloudtrail_denied_15m")
PRINCIPALS = TableId("gold", "cloudtrail_principal_activity_1h")

_S, _I, _T = pa.string(), pa.int64(), pa.timestamp("us", tz="UTC")
_LINEAGE = {"_rid": _S, "_source_file": _S, "_record_index": pa.int32(), "_file_sha256": _S, "_ingested_at": _T, "_batch_id": _S}
_BRONZE = _LINEAGE | {"_file_id": _S, "_listed_at": _T, "_ingest_date": pa.date32(), "raw": _S}
_SILVER = _LINEAGE | {
    "event_id": _S, "event_time": _T, "event_date": pa.date32(), "account_id": _S, "principal_arn": _S, "event_source": _S,
    "event_name": _S, "aws_region": _S, "error_code": _S,
}  # fmt: skip
_WINDOW = {"window_start": _T, "window_end": _T, "window_date": pa.date32()}

LAKE_SCHEMAS: dict[TableId, dict[str, pa.DataType]] = {
    BRONZE: _BRONZE,
    BRONZE.side("quarantine"): _LINEAGE | {"_file_id": _S, "rule": _S, "reason": _S, "raw_bytes": pa.binary()},
    BRONZE.side("held"): _BRONZE | {"verdict_id": _S},
    SILVER: _SILVER,
    SILVER.side("quarantine"): _LINEAGE | {"rule": _S, "reason": _S, "raw": _S},
    SILVER.side("duplicates"): _LINEAGE | {"kept_rid": _S, "event_id": _S, "event_date": pa.date32(), "is_conflicting": pa.bool_()},
    SILVER.side("held"): _SILVER | {"verdict_id": _S},
    ACTIVITY: _WINDOW | {"account_id": _S, "aws_region": _S, "event_source": _S, "event_name": _S, "event_count": _I, "error_count": _I},
    DENIED: _WINDOW | {"account_id": _S, "principal_arn": _S, "denied_count": _I},
    PRINCIPALS: _WINDOW | {"principal_arn": _S, "event_count": _I, "denied_count": _I},
}


def small_settings(folder: Path) -> Settings:
    """Settings whose lake, landing folder and reports lie below one folder, whatever the environment says."""
    (folder / "landing").mkdir(parents=True, exist_ok=True)
    places = {"lake": str(folder / "lake"), "landing": str(folder / "landing"), "reports": folder / "reports"}
    return load_settings(home=folder, **places)


def environment(settings: Settings) -> dict[str, str]:
    """The same settings as environment variables."""
    return {
        "ASSAY_HOME": str(settings.home), "ASSAY_LAKE": settings.lake, "ASSAY_LANDING": settings.landing,
        "ASSAY_REPORTS": str(settings.reports),
    }  # fmt: skip


def write(settings: Settings, table: TableId, *rows: dict[str, Any]) -> None:
    """Append rows to an `_ops` or lake table in one commit."""
    if table in SCHEMAS:
        Ops(settings).append(table, rows)
        return
    schema = pa.schema(list(LAKE_SCHEMAS[table].items()))
    write_deltalake(settings.location(table), pa.Table.from_pylist([dict(row) for row in rows], schema=schema), mode="append")


def file_row(settings: Settings, name: str, **changes: Any) -> dict[str, Any]:
    """A listed file; its `file_id` is the name's first letter 32 times."""
    return {
        "pipeline": "cloudtrail", "path": f"{settings.landing_root}/{name}", "size": 100, "version": "1", "file_id": file_id(name),
        "modified_at": NOW, "prefix_date": date(2024, 5, 1), "attempt": 1, "state": "listed", "reason": None, "admitted": "live",
        "chunk": "c", "listed_at": NOW, "run_id": RUN,
    } | changes  # fmt: skip


def file_id(name: str) -> str:
    return name[0] * 32


def outcome_row(settings: Settings, name: str, **changes: Any) -> dict[str, Any]:
    """The reading of a file with 4 good records."""
    return {
        "pipeline": "cloudtrail", "file_id": file_id(name), "path": f"{settings.landing_root}/{name}", "attempt": 1, "outcome": "ok",
        "rule": None, "reason": None, "heals": False, "sha256": "ab" * 32, "bytes": 100, "inflated_bytes": 400, "records": 4,
        "quarantined": 0, "notes": None, "batch_id": BATCH, "run_id": RUN, "read_at": NOW,
    } | changes  # fmt: skip


def books_row(table: TableId = SILVER, *, read: int = 4, written: int = 4, **changes: Any) -> dict[str, Any]:
    """The books of one batch, with the balance and the equation of its terms."""
    terms = {name: changes.pop(name) for name in list(changes) if name in Books.__slots__}
    books = Books(read=read, written=written, **terms)
    return {
        "pipeline": "cloudtrail", "layer": table.layer, "table": str(table), "batch_id": BATCH, "run_id": RUN, **books.terms(),
        "is_balanced": books.is_balanced, "equation": books.equation(), "outcome": "pass", "decision": None, "source_version": 0,
        "target_version": 0, "epoch": 1, "started_at": NOW, "finished_at": NOW + timedelta(seconds=3),
    } | changes  # fmt: skip


def verdict_row(table: TableId = SILVER, **changes: Any) -> dict[str, Any]:
    """One expectation that held on one batch."""
    return {
        "verdict_id": f"verdict-{table.name}", "pipeline": "cloudtrail", "layer": table.layer, "table": str(table), "batch_id": BATCH,
        "run_id": RUN, "suite": str(table), "outcome": "pass", "sentence": f"{table}: passed.",
        "expectation": "expect_column_values_to_not_be_null", "column": "event_id", "severity": "critical", "success": True,
        "expected": "every event has event_id", "observed": "0 nulls", "element_count": 4, "unexpected_count": 0, "sample": "[]",
        "exception": "", "evaluated_at": NOW,
    } | changes  # fmt: skip


def failed_verdict(table: TableId = SILVER, outcome: str = "stop", **changes: Any) -> dict[str, Any]:
    """One expectation that failed, with the outcome it had."""
    severity = {"stop": "critical", "hold": "warning", "warn": "info"}[outcome]
    return verdict_row(
        table, outcome=outcome, sentence=f"{table} {BATCH}: {outcome}. Not as expected: account_id is 12 digits.", severity=severity,
        success=False, expectation="expect_column_values_to_match_regex", column="account_id", expected="account_id is 12 digits",
        observed="1 of 4 rows do not", unexpected_count=1, sample=json.dumps(["12****89"]),
    ) | changes  # fmt: skip


def record(settings: Settings, name: str, index: int, table: TableId = SILVER, **changes: Any) -> dict[str, Any]:
    """A row of a bronze or silver table, or of a side table, for record `index` of a file; event ids are event-<index>."""
    time = datetime(2024, 5, 1, 12, 30, index, tzinfo=UTC)
    row = {
        "_rid": f"{file_id(name)}:{index}", "_file_id": file_id(name), "_source_file": f"{settings.landing_root}/{name}",
        "_record_index": index, "_file_sha256": "ab" * 32, "_ingested_at": NOW, "_listed_at": NOW, "_ingest_date": NOW.date(),
        "_batch_id": BATCH, "raw": f'{{"eventID":"event-{index}","userName":"mallory"}}', "event_id": f"event-{index}", "event_time": time,
        "event_date": time.date(), "account_id": "111122223333", "principal_arn": "arn:aws:iam::111122223333:user/ann",
        "event_source": "ec2.amazonaws.com", "event_name": "RunInstances", "aws_region": "us-east-1",
    }  # fmt: skip
    return {key: value for key, value in (row | changes).items() if key in LAKE_SCHEMAS[table]}


def gold_row(table: TableId = ACTIVITY, start: datetime = datetime(2024, 5, 1, 12, tzinfo=UTC), **changes: Any) -> dict[str, Any]:
    """A window of the event that `record` makes."""
    length = timedelta(minutes=15) if table == DENIED else timedelta(hours=1)
    row = {
        "window_start": start, "window_end": start + length, "window_date": start.date(), "account_id": "111122223333",
        "aws_region": "us-east-1", "event_source": "ec2.amazonaws.com", "event_name": "RunInstances",
        "principal_arn": "arn:aws:iam::111122223333:user/ann", "event_count": 2, "error_count": 0, "denied_count": 1,
    }  # fmt: skip
    return {key: value for key, value in (row | changes).items() if key in LAKE_SCHEMAS[table]}


def consumed(settings: Settings, ledger_version: int) -> None:
    """A bronze checkpoint that says: the ledger was read up to and including this version."""
    folder = Path(settings.checkpoint(BRONZE)) / "v1"
    for part in ("offsets", "commits"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    offset = {"sourceVersion": 1, "reservoirId": "r", "reservoirVersion": ledger_version + 1, "index": -1, "isStartingVersion": False}
    (folder / "offsets" / "0").write_text("v1\n{}\n" + json.dumps(offset))
    (folder / "commits" / "0").write_text("v1\n{}")


def small_lake(folder: Path) -> Settings:
    """A run of everything, balanced, and one file that came later.

    `a.gz` has 4 records: event-0 and event-1 in silver, record 2 a duplicate of event-0, record 3 quarantined. `b.gz` failed and may
    heal; `c.txt` is ignored; `d.gz` is listed and not read.
    """
    settings = small_settings(folder)
    write(
        settings, FILES, file_row(settings, "a.gz"), file_row(settings, "b.gz"),
        file_row(settings, "c.txt", state="ignored", reason="its name is not a log's"),
    )  # fmt: skip
    consumed(settings, 0)
    write(settings, FILES, file_row(settings, "d.gz", run_id="later", size=70))
    failed = {"outcome": "failed", "rule": "truncated_gzip", "reason": "The gzip stream has no end.", "heals": True, "records": 0}
    write(settings, FILE_OUTCOMES, outcome_row(settings, "a.gz"), outcome_row(settings, "b.gz", **failed))
    write(settings, BRONZE, *[record(settings, "a.gz", index, BRONZE) for index in range(4)])
    write(settings, SILVER, record(settings, "a.gz", 0), record(settings, "a.gz", 1))
    duplicate = record(settings, "a.gz", 2, SILVER.side("duplicates"), kept_rid=f"{'a' * 32}:0", event_id="event-0", is_conflicting=False)
    write(settings, SILVER.side("duplicates"), duplicate)
    bad = {"rule": "event_time_in_future", "reason": "eventTime 2099 is too late."}
    write(settings, SILVER.side("quarantine"), record(settings, "a.gz", 3, SILVER.side("quarantine"), **bad))
    write(settings, ACTIVITY, gold_row())
    write(settings, PRINCIPALS, gold_row(PRINCIPALS))
    write(
        settings, BOOKS, books_row(BRONZE, files_read=2, files_ok=1, files_failed=1),
        books_row(SILVER, written=2, duplicate=1, quarantined=1),
        books_row(ACTIVITY, read=2, written=2), books_row(PRINCIPALS, read=2, written=2),
        books_row(DENIED, read=0, written=0),
    )  # fmt: skip
    return settings
