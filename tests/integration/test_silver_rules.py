"""Recipes that give wrong data elsewhere: 12-hour clocks, watermarks that drop, one future clock, newest windows missing, doubled keys."""

import os
from collections import Counter
from datetime import UTC, datetime

import pytest

from spark_jobs.io.ledger import readmit
from spark_jobs.spec.errors import CheckpointDamaged
from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.corpus import FOLDER, good_file
from tests.builders.events import event, event_text
from tests.builders.landing_files import document, packed

EVERY_HOUR = [f"2024-05-01T{hour:02}:30:00Z" for hour in range(24)]
EDGES = ["2024-05-01T00:00:00Z", "2024-05-01T12:00:00Z", "2024-05-01T23:59:59Z", "2024-02-29T12:30:00.123456Z"]


def test_times_are_right_at_each_hour_and_no_event_is_too_late_or_lost_to_a_clock_in_the_future(stack):
    _land(stack, "hours", dict(enumerate(EVERY_HOUR + EDGES)))
    stack.discover()
    assert stack.run() is None
    times = {row["event_id"]: row["event_time"] for row in stack.rows("silver.cloudtrail_events", ["event_id", "event_time"])}
    assert times == {event(number)["eventID"]: datetime.fromisoformat(time) for number, time in enumerate(EVERY_HOUR + EDGES)}
    hours = _hours(stack)
    assert [hours[datetime(2024, 5, 1, hour, tzinfo=UTC)] for hour in range(24)] == [2, *[1] * 11, 2, *[1] * 10, 2]
    assert max(hours) == datetime(2024, 5, 1, 23, tzinfo=UTC)  # the newest window is there after the run, without any newer data

    # One clock in the future, then events that are late by an hour, a month and ten years: all of them are published in their windows.
    _land(stack, "future", {100: "2099-01-01T00:00:00Z"})
    stack.discover()
    assert stack.run("bronze", "silver") is None
    late = {101: "2024-05-01T22:10:00Z", 102: "2024-04-01T05:00:00Z", 103: "2014-05-01T12:30:00Z"}
    _land(stack, "late", late)
    stack.discover()
    assert stack.run() is None
    after = _hours(stack)
    assert after - hours == Counter({datetime.fromisoformat(time).replace(minute=0): 1 for time in late.values()})
    accounted = assert_every_record_accounted_for(stack)
    assert (accounted.silver, accounted.quarantined) == (31, 1)


def test_a_key_is_published_once_across_runs_files_readings_and_checkpoints(stack):
    path = stack.land(f"{FOLDER}/first.json.gz", good_file(1, 2))
    stack.land(f"{FOLDER}/untouched.json.gz", good_file(5, 6))
    stack.discover()
    assert stack.run() is None
    kept = stack.content("silver.cloudtrail_events")
    # The same events: in another file, with a third one; the same file delivered anew; and a second reading of what was read, twice.
    stack.land(f"{FOLDER}/second.json.gz", good_file(2, 3))
    os.utime(path, (1_714_570_000, 1_714_570_000))
    read = [row["file_id"] for row in stack.rows("_ops.files", ["file_id"])]
    assert readmit(stack.settings, "cloudtrail", read, "by hand") == 2
    assert readmit(stack.settings, "cloudtrail", read, "by hand") == 2
    stack.discover()
    assert stack.run() is None
    accounted = assert_every_record_accounted_for(stack)
    assert (accounted.bronze, accounted.silver, accounted.duplicate) == (8, 5, 3)
    assert set(kept) < set(stack.content("silver.cloudtrail_events"))
    # And a reading of nothing else than what was read: the run says so, and nothing changes.
    readmit(stack.settings, "cloudtrail", read, "by hand")
    assert stack.run() is None
    assert assert_every_record_accounted_for(stack) == accounted
    # Without its checkpoint silver would read bronze again from its beginning: it refuses instead.
    checkpoint = stack.folder / "lake" / "_checkpoints" / "silver.cloudtrail_events"
    checkpoint.rename(checkpoint.with_name("gone"))
    with pytest.raises(CheckpointDamaged, match="was already written"):
        stack.run("silver")
    checkpoint.with_name("gone").rename(checkpoint)
    assert assert_every_record_accounted_for(stack) == accounted


def test_a_record_of_the_wrong_type_is_never_a_row_of_nulls(stack):
    """Elsewhere broken JSON and a wrong type both give a struct of nulls, which a test for null does not find."""
    texts = [event_text(1), event_text(2, readOnly="yes"), '{"eventID":1}', "{}", event_text(3, tlsDetails=[])]
    stack.land(f"{FOLDER}/types.json.gz", packed(document([text.encode() for text in texts])))
    stack.discover()
    assert stack.run("bronze", "silver") is None
    assert [row["event_id"] for row in stack.rows("silver.cloudtrail_events")] == [event(1)["eventID"]]
    quarantined = {row["_record_index"]: (row["rule"], row["raw"]) for row in stack.rows("silver.cloudtrail_events_quarantine")}
    assert quarantined == {
        1: ("wrong_type", texts[1]),
        2: ("wrong_type", texts[2]),
        3: ("missing_event_id", texts[3]),
        4: ("wrong_type", texts[4]),
    }


def test_an_object_that_is_no_log_makes_no_batch_stop(stack):
    """A batch of the ledger that names only ignored objects has nothing for bronze: it passes, unlike a suite without evidence."""
    stack.land(f"{FOLDER}/_SUCCESS", b"")
    stack.discover()
    assert stack.run("bronze") is None
    stack.land(f"{FOLDER}/b.json.gz", good_file(2))
    stack.discover()
    assert stack.run() is None
    assert assert_every_record_accounted_for(stack).silver == 1


def _land(stack, name, times):
    """One file of events: number to event time."""
    records = [event_text(number, eventTime=time).encode() for number, time in times.items()]
    stack.land(f"{FOLDER}/{name}.json.gz", packed(document(records)))


def _hours(stack):
    hours = Counter()
    for row in stack.rows("gold.cloudtrail_activity_1h", ["window_start", "event_count"]):
        hours[row["window_start"]] += row["event_count"]
    return hours
