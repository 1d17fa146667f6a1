"""Times of events: every hour of the day, and every kind of text that is no time."""

from __future__ import annotations

from datetime import date, datetime

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs.pipelines.cloudtrail.gold import count_principal_activity
from spark_jobs.pipelines.cloudtrail.silver import parse_events
from tests.builders.events import event_text
from tests.spark.frames import bronze_frame, parse

GOOD = {
    **{f"2024-05-01T{hour:02}:30:15Z": datetime(2024, 5, 1, hour, 30, 15) for hour in range(24)},
    "2024-05-01T00:00:00Z": datetime(2024, 5, 1, 0, 0, 0),
    "2024-05-01T12:00:00Z": datetime(2024, 5, 1, 12, 0, 0),
    "2024-04-30T23:59:59Z": datetime(2024, 4, 30, 23, 59, 59),
    "2024-02-29T23:59:59Z": datetime(2024, 2, 29, 23, 59, 59),
    "2024-03-31T01:30:00Z": datetime(2024, 3, 31, 1, 30, 0),  # skipped by summer time in much of Europe
    "2013-01-01T00:00:00Z": datetime(2013, 1, 1),
    "2024-05-01T12:30:15.5Z": datetime(2024, 5, 1, 12, 30, 15, 500_000),
    "2024-05-01T12:30:15.123456Z": datetime(2024, 5, 1, 12, 30, 15, 123_456),
    "2024-05-01T12:30:15.123456789Z": datetime(2024, 5, 1, 12, 30, 15, 123_456),  # cut, not rounded
    "2024-05-03T10:00:00Z": datetime(2024, 5, 3, 10),  # exactly one day after it was taken in
}

BAD = {
    "2024-05-01T24:00:00Z": "event_time_unparseable",
    "2024-05-01T23:59:60Z": "event_time_unparseable",
    "2024-05-01T23:60:00Z": "event_time_unparseable",
    "2024-02-30T12:00:00Z": "event_time_unparseable",
    "2023-02-29T12:00:00Z": "event_time_unparseable",
    "2024-13-01T12:00:00Z": "event_time_unparseable",
    "2024-05-01T12:30:15": "event_time_unparseable",
    "2024-05-01T12:30:15+02:00": "event_time_unparseable",
    "2024-05-01 12:30:15Z": "event_time_unparseable",
    "2024-05-01T12:30Z": "event_time_unparseable",
    "2024-05-01T1:30:15Z": "event_time_unparseable",
    "20240501T123015Z": "event_time_unparseable",
    "2024-05-01": "event_time_unparseable",
    "2024-05-01T12:30:15Z\n": "event_time_unparseable",
    " 2024-05-01T12:30:15Z": "event_time_unparseable",
    "2024-05-01T12:30:15.Z": "event_time_unparseable",
    "1714566615": "event_time_unparseable",
    "yesterday": "event_time_unparseable",
    "٢٠٢٤-٠٥-٠١T١٢:٣٠:١٥Z": "event_time_unparseable",
    "": "missing_event_time",
    "   ": "missing_event_time",
    "2099-01-01T00:00:00Z": "event_time_in_future",
    "2024-05-03T10:00:01Z": "event_time_in_future",
    "0001-01-01T00:00:00Z": "event_time_too_old",
    "2012-12-31T23:59:59Z": "event_time_too_old",
    "0000-01-01T00:00:00Z": "event_time_too_old",
}


def test_each_hour_of_the_day_and_each_form_of_utc_time_is_read_right(spark: SparkSession) -> None:
    rows = parse(spark, [event_text(number, eventTime=time) for number, time in enumerate(GOOD)])
    assert {time: (row["_rule"], row["event_time"], row["event_date"]) for time, row in zip(GOOD, rows, strict=True)} == {
        time: (None, value, value.date()) for time, value in GOOD.items()
    }


def test_what_is_no_time_is_quarantined_beside_events_that_are_kept(spark: SparkSession) -> None:
    raws = [event_text(number, eventTime=time) for number, time in enumerate(BAD)]
    *rows, good = parse(spark, [*raws, event_text(99)])
    assert {time: row["_rule"] for time, row in zip(BAD, rows, strict=True)} == BAD
    assert {(row["event_time"], row["event_date"]) for row in rows} == {(None, None)}
    assert (good["_rule"], good["event_time"], good["event_date"]) == (None, datetime(2024, 5, 1, 12, 30, 15), date(2024, 5, 1))


def test_an_event_ahead_of_its_arrival_is_due_when_it_no_longer_is_and_read_again_then_it_is_kept(spark: SparkSession) -> None:
    ahead = [event_text(number, eventTime=time) for number, time in enumerate(("2024-05-03T10:00:00Z", "2024-05-03T10:00:01Z"))]
    raw_records = bronze_frame(spark, ahead)
    kept, parked = sorted(parse_events(raw_records).collect(), key=lambda row: row["_record_index"])
    assert (kept["_rule"], kept["_due_at"]) == (None, None)  # exactly a day ahead is not yet too far
    assert (parked["_rule"], parked["_due_at"], parked["event_time"]) == ("event_time_in_future", datetime(2024, 5, 2, 10, 0, 1), None)
    assert "is more than 1 day after" in parked["_reason"]
    for as_of, rule in ((datetime(2024, 5, 2, 10, 0, 0), "event_time_in_future"), (parked["_due_at"], None)):
        again = parse_events(raw_records.withColumn("_as_of", F.lit(as_of))).where("_record_index = 1").first()
        assert again is not None and again["_rule"] == rule


def test_the_hours_of_a_whole_day_are_counted_in_their_windows(spark: SparkSession) -> None:
    raws = [event_text(hour, eventTime=f"2024-05-01T{hour:02}:59:59Z") for hour in range(24)]
    windows = count_principal_activity(parse_events(bronze_frame(spark, raws))).select(F.hour("window_start"), "event_count")
    assert sorted(tuple(row) for row in windows.collect()) == [(hour, 1) for hour in range(24)]
