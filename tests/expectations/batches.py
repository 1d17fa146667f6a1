"""Good batches of each table: rows and facts that satisfy every expectation. A test changes one thing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from expectations.gate import evaluate
from expectations.suite import Suite
from spark_jobs.spec.books import Books
from spark_jobs.spec.gates import GatePolicy, Verdict
from spark_jobs.spec.pipeline import FirstSeenSpec, GoldSpec
from spark_jobs.spec.windows import WindowSpec

FILE = "0123456789abcdef" * 2
NOON = datetime(2023, 7, 10, 12, tzinfo=UTC)
ANY = GatePolicy()


@dataclass(frozen=True)
class Batch:
    """One batch of one table, ready to be judged."""

    layer: str
    subject: str
    schema: str
    rows: tuple[dict[str, Any], ...]
    facts: dict[str, Any]
    books: Books | None = None
    without: tuple[str, ...] = field(default=())  # columns the frame lacks

    def row(self, at: int = 0, **changes: Any) -> Batch:
        """The batch with some values of one row changed."""
        rows = [dict(row) for row in self.rows]
        rows[at] |= changes
        return replace(self, rows=tuple(rows))

    def also(self, **facts: Any) -> Batch:
        """The batch with some facts changed."""
        return replace(self, facts=self.facts | facts)

    def of(self, books: Books) -> Batch:
        return replace(self.also(books=books), books=books)

    def suite(self) -> Suite:
        suite: Suite = import_module(f"expectations.cloudtrail.{self.layer}").suite(self.subject, self.facts)
        return suite

    def frame(self, spark: SparkSession) -> DataFrame:
        names = [column.split()[0] for column in self.schema.split(", ")]
        return spark.createDataFrame([tuple(row[name] for name in names) for row in self.rows], self.schema).drop(*self.without)

    def judge(self, spark: SparkSession, policy: GatePolicy = ANY, suite: Suite | None = None) -> Verdict:
        table = f"{self.layer}.cloudtrail_{self.subject}"
        given = {"table": table, "batch_id": "v1-00000003", "books": self.books, "facts": self.facts}
        return evaluate(self.frame(spark), suite=suite or self.suite(), policy=policy, **given)


def bronze() -> Batch:
    """Three records of one file; a fourth was quarantined."""
    rows = [
        {
            "_rid": f"{FILE}:{index}",
            "_file_id": FILE,
            "_source_file": "/landing/one.json.gz",
            "_record_index": index,
            "_file_sha256": "ab" * 32,
            "_listed_at": NOON,
            "_ingested_at": NOON,
            "_ingest_date": NOON.date(),
            "_batch_id": "v1-00000003",
            "raw": f'{{"eventID":"{index}"}}',
        }
        for index in (0, 1, 3)
    ]
    books = Books(read=4, written=3, quarantined=1, files_read=2, files_ok=1, files_failed=1)
    facts = {"books": books, "files": {FILE: {"records": 4, "quarantined": 1}}, "files_read": 2, "outcomes": 2}
    schema = (
        "_rid string, _file_id string, _source_file string, _record_index int, _file_sha256 string, _listed_at timestamp, "
        "_ingested_at timestamp, _ingest_date date, _batch_id string, raw string"
    )
    return Batch("bronze", "records", schema, tuple(rows), facts, books)


def silver() -> Batch:
    """Three first arrivals; of five records one was a duplicate and one quarantined."""
    rows = [
        {
            "event_id": f"0a1b2c3d-0000-4000-8000-{index:012d}",
            "event_time": NOON + timedelta(hours=index, seconds=-1),  # 11:59:59 and on: a 12-hour clock would show
            "event_date": NOON.date(),
            "account_id": "123456789012",
            "principal_arn": "arn:aws:iam::123456789012:user/ana",
            "event_source": "s3.amazonaws.com",
            "event_name": "GetObject",
            "aws_region": "us-gov-west-1",
            "event_type": "AwsApiCall",
            "event_category": "Management",
            "_rid": f"{FILE}:{index}",
            "_ingested_at": NOON,
        }
        for index in range(3)
    ]
    books = Books(read=5, written=3, quarantined=1, duplicate=1)
    facts = {"books": books, "bronze_rows": 5, "conflicting": 0}
    schema = (
        "event_id string, event_time timestamp, event_date date, account_id string, principal_arn string, event_source string, "
        "event_name string, aws_region string, event_type string, event_category string, _rid string, _ingested_at timestamp"
    )
    return Batch("silver", "events", schema, tuple(rows), facts, books)


_WINDOW = "window_start timestamp, window_end timestamp, window_date date, "


def _gold(spec: GoldSpec, schema: str, groups: list[dict[str, Any]], start: datetime = NOON) -> Batch:
    end = start + timedelta(seconds=spec.window.length_s)
    rows = tuple({"window_start": start, "window_end": end, "window_date": date(2023, 7, 10)} | group for group in groups)
    total = sum(group[spec.counts] for group in groups)
    books = Books(read=total, written=total)
    return Batch(
        "gold", spec.subject, _WINDOW + schema, rows, {"spec": spec, "expected_sum": total, "source_rows": total, "books": books}, books
    )


def activity() -> Batch:
    spec = GoldSpec("activity_1h", WindowSpec(3600, 3600), ("account_id", "aws_region", "event_source", "event_name"))
    return _activity(spec, NOON, "event_name", ("GetObject", "PutObject"))


def account_activity() -> Batch:
    spec = GoldSpec("account_activity_1d", WindowSpec(86_400, 86_400), ("account_id", "aws_region", "event_source"), cadence="daily")
    return _activity(spec, NOON.replace(hour=0), "event_source", ("ec2.amazonaws.com", "s3.amazonaws.com"))


def _activity(spec: GoldSpec, start: datetime, name: str, values: tuple[str, str]) -> Batch:
    measures = {
        "event_count": 4,
        "error_count": 1,
        "distinct_principals": 2,
        "first_event_at": start,
        "last_event_at": start + timedelta(seconds=spec.window.length_s - 1),
    }
    group = {"account_id": "123456789012", "aws_region": "us-east-1", "event_source": "s3.amazonaws.com"} | measures
    schema = "".join(f"{column} string, " for column in spec.grain) + (
        "event_count bigint, error_count bigint, distinct_principals bigint, first_event_at timestamp, last_event_at timestamp"
    )
    return _gold(spec, schema, [group | {name: value} for value in values], start)


def principal_activity() -> Batch:
    spec = GoldSpec("principal_activity_1h", WindowSpec(3600, 3600), ("principal_arn",))
    measures = {"event_count": 5, "denied_count": 0, "distinct_services": 2, "distinct_source_addresses": 5, "distinct_regions": 1}
    schema = (
        "principal_arn string, event_count bigint, denied_count bigint, distinct_services bigint, distinct_source_addresses bigint, "
        "distinct_regions bigint"
    )
    return _gold(spec, schema, [measures | {"principal_arn": arn} for arn in ("arn:aws:iam::1:user/ana", "unknown")])


def denied() -> Batch:
    spec = GoldSpec("denied_15m", WindowSpec(900, 300), ("account_id", "principal_arn"), counts="denied_count")
    group = {"account_id": "123456789012", "denied_count": 3}
    schema = "account_id string, principal_arn string, denied_count bigint"
    return _gold(spec, schema, [group | {"principal_arn": arn} for arn in ("arn:aws:iam::1:user/ana", "unknown")])


def first_seen() -> Batch:
    """Two new values of five looked at."""
    spec = FirstSeenSpec("first_seen", (("principal", "principal_arn"), ("event_name", "event_name")), ("account_id", "_rid"))
    event = {"first_event_at": NOON, "event_id": "0a1b2c3d-0000-4000-8000-000000000000", "account_id": "123456789012", "_rid": f"{FILE}:0"}
    rows = tuple(event | {"kind": kind, "value": value} for kind, value in (("principal", "unknown"), ("event_name", "GetObject")))
    books = Books(read=5, written=2, duplicate=3)
    schema = "kind string, value string, first_event_at timestamp, event_id string, account_id string, _rid string"
    return Batch("gold", "first_seen", schema, rows, {"spec": spec, "expected_rows": 2, "source_rows": 5, "books": books}, books)
