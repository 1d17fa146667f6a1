"""Continuous runs: files land and rows arrive; turns with others; the relay; from hourly to continuous and back."""

import json
import threading

import pytest

from spark_jobs.io.lease import Leases
from spark_jobs.io.relay import ask_to_end, driver_of
from spark_jobs.jobs import stream
from spark_jobs.jobs.decide import decide
from spark_jobs.jobs.run_layers import run_layers
from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.continuous import PATIENCE_S, Driver, events_of
from tests.builders.corpus import FOLDER, good_file
from tests.builders.stack import Stack

BRONZE, SILVER, GOLD = "bronze.cloudtrail_records", "silver.cloudtrail_events", "gold.cloudtrail"


@pytest.fixture
def stack(tmp_path, spark):
    return Stack(tmp_path, spark, trigger="every 1 second", gold_trigger="every 2 seconds", recent_dates=5)


def test_from_hourly_to_continuous_and_back_nothing_is_lost_or_doubled(stack, monkeypatch):
    hourly = Stack(stack.folder, stack._spark)
    _land(stack, "hourly", range(1, 4))
    hourly.discover()
    assert hourly.run() is None

    monkeypatch.setattr(stream, "RELAY_S", Driver.LIFETIME_S)  # the first one's whole life is near enough to its end
    with Driver(stack, "stream-1") as first:
        with Leases(hourly.settings, [stack.pipeline.bronze_table], "an hourly run"):  # at work when the driver begins
            _land(stack, "first", range(4, 8))
            first.until(lambda: "started" in events_of(stack, SILVER), "silver, whose table is free")
            assert events_of(stack, BRONZE) == []
        first.until(lambda: _counted(stack) == 7, "rows in gold")

        refused = stack.job("discover", env={"ASSAY_TRIGGER": "once"})
        said = json.loads(refused.stdout)
        assert said["has_work"] is False and "cloudtrail is run continuously by stream-1" in said["sentence"]
        skipped = run_layers(hourly.start("hourly-late"))
        assert skipped["layers"] == [] and "an hourly run has nothing to do" in skipped["sentence"]

        with Driver(stack, "stream-2") as second:
            assert first.over()["ended"] == "handed_over"
            _land(stack, "second", range(8, 12))
            second.until(lambda: _counted(stack) == 11, "rows in gold after the relay")
            assert driver_of(stack.settings, stack.pipeline).owner == "stream-2"
            ask_to_end(stack.settings, stack.pipeline, "somebody")
            answer = second.over()
            assert (answer["layers"], answer["stopped"], answer["ended"]) == (["bronze", "silver", "gold"], None, "asked")
            assert answer["sentence"] == "somebody asked for it." and answer["pace"][SILVER]["batches"] >= 1
    assert driver_of(stack.settings, stack.pipeline) is None
    assert events_of(stack, "") == ["started", "waiting", "handed_over", "terminated", "started", "terminated"]

    _land(stack, "back", range(12, 14))
    hourly.discover()
    assert hourly.run() is None
    found = assert_every_record_accounted_for(stack)
    assert (found.silver, found.duplicate, found.quarantined, found.files_failed) == (13, 0, 0, 0)


def test_a_driver_steps_aside_for_another_writer_and_for_no_longer_than_that(stack):
    has_table, may_go = threading.Event(), threading.Event()
    epochs = []

    def replay() -> None:
        with Leases(stack.settings, [stack.pipeline.silver_table], "replay of files", yields=True) as leases:
            epochs.append(leases.epoch(stack.pipeline.silver_table))
            has_table.set()
            may_go.wait(PATIENCE_S)

    other = threading.Thread(target=replay, daemon=True)
    with Driver(stack, "stream-1") as driver:
        _land(stack, "before", range(1, 4))
        driver.until(lambda: _counted(stack) == 3, "rows in gold")
        other.start()
        driver.until(has_table.is_set, "turn for the replay")
        _land(stack, "meanwhile", range(4, 6))
        driver.until(lambda: len(stack.rows(BRONZE, ["_rid"])) == 5, "rows in bronze, which nobody waits for")
        assert len(stack.rows(SILVER, ["event_id"])) == 3
        may_go.set()
        driver.until(lambda: _counted(stack) == 5, "rows in gold after the turn")
    other.join(PATIENCE_S)
    assert events_of(stack, SILVER) == ["started", "stepped_aside", "resumed", "terminated"]
    assert events_of(stack, BRONZE) == ["started", "terminated"]
    silver_epochs = {row["epoch"] for row in stack.rows("_ops.books") if row["table"] == SILVER}
    assert epochs == [2] and silver_epochs == {1, 3}
    assert_every_record_accounted_for(stack)


def test_a_stopped_gate_waits_for_a_person_while_bronze_goes_on_and_a_held_batch_is_released(stack):
    with Driver(stack, "stream-1") as driver:
        _land(stack, "mostly_broken", range(1, 9), broken=range(9, 22))
        driver.until(lambda: "waiting" in events_of(stack, SILVER), "stop of silver's gate")
        _land(stack, "good", range(30, 33))
        driver.until(lambda: len(stack.rows(BRONZE, ["_rid"])) == 24, "rows in bronze")
        assert stack.rows(SILVER, ["event_id"]) == []
        decide(stack.settings, SILVER, "v1-00000000", "release", who="a person", note="", at=stack.clock())
        driver.until(lambda: _counted(stack) == 11, "rows in gold after the release")

        _land(stack, "odd_account", range(40, 43), recipientAccountId="not-an-account")
        driver.until(lambda: len(stack.rows(f"{SILVER}_held", ["_rid"])) == 3, "held batch")
        held = stack.rows(f"{SILVER}_held", ["_batch_id"])[0]["_batch_id"]
        decide(stack.settings, SILVER, held, "release", who="a person", note="", at=stack.clock())
        driver.until(lambda: _counted(stack) == 14, "rows in gold after the second release")
    assert events_of(stack, SILVER) == ["started", "waiting", "resumed", "resumed", "terminated"]
    assert events_of(stack, "") == ["started", "terminated"]  # a gate is no fault of the driver
    found = assert_every_record_accounted_for(stack)
    assert (found.silver, found.quarantined, found.held) == (14, 13, 0)


def _land(stack, name, numbers, broken=(), **changes):
    """A file that is whole when it is first seen."""
    content = good_file(*numbers, **changes) + (good_file(*broken, eventID=...) if broken else b"")
    outside = stack.folder / name
    outside.write_bytes(content)
    place = stack.landing / FOLDER / f"{name}.json.gz"
    place.parent.mkdir(parents=True, exist_ok=True)
    outside.rename(place)


def _counted(stack):
    return sum(row["event_count"] for row in stack.rows("gold.cloudtrail_activity_1h", ["event_count"]))
