"""Gold: windowed counts against plain Python over the shipped sample, and as SQL."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.pipelines.cloudtrail import gold
from spark_jobs.pipelines.cloudtrail.pipeline import DENIED, PIPELINE
from spark_jobs.pipelines.cloudtrail.silver import parse_events
from tests.builders.events import event, event_text
from tests.builders.sample import sample_events
from tests.spark.frames import bronze_frame, rows_of

Row = tuple[Any, ...]


def strange_events() -> list[dict[str, Any]]:
    """Events that the sample lacks: denials in several spellings, no principal, no address, several regions, window edges."""
    codes = ["AccessDenied", "Client.UnauthorizedOperation", "accessdeniedexception", "VpceAccessDenied", "NoSuchKey", None, ...]
    times = ["00:00:00", "00:04:59", "00:05:00", "00:14:59", "23:59:59"]
    principals = [{"type": "IAMUser", "arn": f"arn:{letter}"} for letter in "abc"] + [{"type": "AWSService", "invokedBy": "x"}, None]
    events = []
    for number in range(150):
        events.append(
            event(
                number,
                eventTime=f"2024-05-01T{times[number % 5]}Z",
                errorCode=codes[number % 7],
                userIdentity=principals[number % 4 if number % 11 else 4],
                sourceIPAddress=f"10.0.0.{number % 3}" if number % 13 else ...,
                awsRegion=["eu-west-1", "us-east-1"][number % 2],
                eventSource=["s3.amazonaws.com", "ec2.amazonaws.com"][number % 9 == 0],
            )
        )
    return events


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    return [*sample_events(), *strange_events()]


@pytest.fixture(scope="module")
def events(spark: SparkSession, records: list[dict[str, Any]]) -> Iterator[DataFrame]:
    raws = [json.dumps(record, separators=(",", ":")) for record in records]
    frame = parse_events(bronze_frame(spark, raws)).where("_rule is null").select(*gold.COLUMNS).persist()
    assert frame.count() == len(records)
    yield frame
    frame.unpersist()


def test_hourly_activity_is_what_plain_python_counts(events: DataFrame, records: list[dict[str, Any]]) -> None:
    groups = defaultdict(list)
    for record in records:
        start = _time(record).replace(minute=0, second=0)
        groups[start, _account(record), record["awsRegion"], record["eventSource"], record["eventName"]].append(record)
    expected = [
        (start, start + timedelta(hours=1), start.date(), *grain, len(group), sum(1 for r in group if r.get("errorCode")),
         len({_principal(r) for r in group}), min(map(_time, group)), max(map(_time, group)))
        for (start, *grain), group in groups.items()
    ]  # fmt: skip
    assert rows_of(gold.count_activity(events)) == sorted(expected, key=repr)
    assert gold.count_activity(events).columns[7:] == [
        "event_count",
        "error_count",
        "distinct_principals",
        "first_event_at",
        "last_event_at",
    ]


def test_activity_of_principals_is_what_plain_python_counts(events: DataFrame, records: list[dict[str, Any]]) -> None:
    groups = defaultdict(list)
    for record in records:
        groups[_time(record).replace(minute=0, second=0), _principal(record)].append(record)
    expected = [
        (start, start + timedelta(hours=1), start.date(), principal, len(group), sum(map(_is_denied, group)),
         *[len({r.get(name) for r in group} - {None}) for name in ("eventSource", "sourceIPAddress", "awsRegion")])
        for (start, principal), group in groups.items()
    ]  # fmt: skip
    assert rows_of(gold.count_principal_activity(events)) == sorted(expected, key=repr)


def test_denied_events_are_in_each_of_their_three_windows(events: DataFrame, records: list[dict[str, Any]]) -> None:
    counts: dict[Row, int] = defaultdict(int)
    for record in filter(_is_denied, records):
        time = _time(record)
        last = time.replace(minute=time.minute - time.minute % 5, second=0)
        for start in (last, last - timedelta(minutes=5), last - timedelta(minutes=10)):
            counts[start, start + timedelta(minutes=15), start.date(), _account(record), _principal(record)] += 1
    assert rows_of(gold.count_denied(events)) == sorted(((*key, count) for key, count in counts.items()), key=repr)
    assert sum(counts.values()) == 3 * sum(map(_is_denied, records)) > 300


def test_the_sql_form_gives_the_same_table(spark: SparkSession, events: DataFrame) -> None:
    from_sql = spark.sql(gold.ACTIVITY_1H_SQL, events=events)
    assert from_sql.schema.names == gold.count_activity(events).schema.names
    assert rows_of(from_sql) == rows_of(gold.count_activity(events))


def test_each_declared_table_has_its_transform_grain_and_measure(events: DataFrame) -> None:
    assert set(gold.TABLES) == {spec.subject for spec in PIPELINE.gold}
    for spec in PIPELINE.gold:
        table = gold.TABLES[spec.subject](events)
        key = ["window_start", *spec.grain]
        assert table.columns[: len(spec.grain) + 3] == ["window_start", "window_end", "window_date", *spec.grain]
        assert table.count() == table.select(*key).distinct().count()
        rows = events.where(spec.of).count()
        assert table.agg({spec.counts: "sum"}).first()[0] == rows * spec.window.windows_per_event


def test_no_events_give_no_windows(spark: SparkSession) -> None:
    empty = parse_events(bronze_frame(spark, [])).select(*gold.COLUMNS)
    assert [count(empty).count() for count in gold.TABLES.values()] == [0] * len(gold.TABLES)


def test_an_hour_computed_from_its_own_rows_is_the_hour_of_the_whole(spark: SparkSession, events: DataFrame) -> None:
    hour = "event_time >= '2023-07-10 12:00:00' and event_time < '2023-07-10 13:00:00'"
    for subject in ("activity_1h", "principal_activity_1h"):
        whole = gold.TABLES[subject](events).where("window_start = '2023-07-10 12:00:00'")
        assert rows_of(gold.TABLES[subject](events.where(hour))) == rows_of(whole)


@pytest.mark.parametrize(
    ("code", "is_denied"),
    [("AccessDenied", True), ("AccessDeniedException", True), ("Client.UnauthorizedOperation", True), ("Forbidden", True),
     ("NotAuthorizedException", True), ("AuthFailure", True), ("ThrottlingException", False), ("NoSuchBucket", False), (None, False)],
)  # fmt: skip
def test_services_spell_a_denial_in_many_ways(spark: SparkSession, code: str | None, is_denied: bool) -> None:
    denied = gold.count_denied(parse_events(bronze_frame(spark, [event_text(errorCode=code)])))
    assert denied.count() == (3 if is_denied else 0)


def _time(record: dict[str, Any]) -> datetime:
    return datetime.strptime(record["eventTime"], "%Y-%m-%dT%H:%M:%SZ")


def _account(record: dict[str, Any]) -> str:
    return record.get("recipientAccountId") or record["userIdentity"]["accountId"]


def _principal(record: dict[str, Any]) -> str:
    who = record.get("userIdentity") or {}
    if who.get("arn"):
        return who["arn"]
    if who.get("invokedBy"):
        return f"service:{who['invokedBy']}"
    return f"account:{who['accountId']}" if who.get("accountId") else "unknown"


def _is_denied(record: dict[str, Any]) -> bool:
    words = re.search(r"\((?!\?)(.*)\)", DENIED)[1].lower().split("|")
    return any(word in (record.get("errorCode") or "").lower() for word in words)
