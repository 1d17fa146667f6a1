"""Maintenance beside everything else: streams that are behind, versions that somebody has pinned, runs at the same moment."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from spark_jobs.io import maintenance_files
from spark_jobs.io.consumers import needed_files, needs_of
from spark_jobs.io.ops import Ops
from spark_jobs.spec.tables import CONSUMERS, TableId
from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.batch_over_silver import assert_gold_is_a_batch_over_silver
from tests.builders.corpus import FOLDER, good_file
from tests.builders.maintenance import maintained, run_hours_beside
from tests.builders.stack import Stack

BRONZE, SILVER = TableId("bronze", "cloudtrail_records"), TableId("silver", "cloudtrail_events")
HOURS = 3


@pytest.fixture
def stack(tmp_path, spark):
    """Each file becomes a batch and so a data file of bronze."""
    return Stack(tmp_path, spark, batch_files=1, gates=False)


def land(stack: Stack, *numbers: int) -> None:
    for number in numbers:
        stack.land(f"{FOLDER}/{number:03}-{time.time_ns()}.json.gz", good_file(number))
    stack.discover()


def live(stack: Stack, table: TableId) -> set[str]:
    return {uri.removeprefix("file://") for uri in DeltaTable(stack.settings.location(table)).file_uris()}


def stored(stack: Stack, table: TableId) -> set[str]:
    return {str(path) for path in Path(stack.settings.location(table)).rglob("*.parquet") if "_delta_log" not in path.parts}


def consumer(stack: Stack, name: str, state: str = "registered", **what) -> None:
    row = {"name": name, "table": str(SILVER), "state": state, "who": "ann", "at": datetime.now(UTC), **what}
    Ops(stack.settings).append(CONSUMERS, [row])


class Follower:
    """Somebody else's stream of silver: `read` takes what is there and stops, as a paused stream does."""

    def __init__(self, stack: Stack) -> None:
        self.checkpoint, self.seen, self._stack = str(stack.folder / "follower"), [], stack

    def read(self) -> None:
        events = self._stack._spark.readStream.format("delta").load(self._stack.settings.location(SILVER))
        taken = lambda batch, _: self.seen.extend(row.event_id for row in batch.select("event_id").collect())  # noqa: E731
        events.writeStream.foreachBatch(taken).option("checkpointLocation", self.checkpoint).trigger(
            availableNow=True
        ).start().awaitTermination()


def test_streams_that_are_behind_read_on_through_compaction_and_lose_no_file(stack):
    """Silver is five files behind bronze, gold has read nothing of silver and another's stream half of it, when all is compacted and
    old enough to go. What they still need stays, and is said; when they have read it, it goes, and so do the commits that told of it."""
    land(stack, 0, 1, 2)
    assert stack.run("bronze", "silver") is None
    follower = Follower(stack)
    follower.read()
    consumer(stack, "siem", checkpoint=follower.checkpoint)
    for number in (3, 4, 5):
        land(stack, number)
        assert stack.run("bronze", "silver") is None
    land(stack, 6, 7, 8, 9, 3)
    assert stack.run("bronze") is None
    as_it_was = {table: live(stack, table) for table in (BRONZE, SILVER)}

    first = maintained(stack)
    bronze, silver = first[str(BRONZE)], first[str(SILVER)]
    assert (bronze["files_before"], bronze["files_after"]) == (11, 1)
    unread = live_before_silver(stack)
    assert len(unread) >= 5 and unread <= stored(stack, BRONZE) and bronze["files_removed"] == 11 - len(unread)
    assert bronze["held_back_by"] == [f"the stream {SILVER}"]
    assert f"{len(unread)} old files stay for the stream silver.cloudtrail_events" in bronze["sentence"]
    assert silver["days_compacted"] == 0, "four files are few"
    compacted = maintained_with_few(stack, 1)[str(SILVER)]
    assert (compacted["files_before"], compacted["files_after"], compacted["files_removed"]) == (4, 1, 0)
    assert compacted["held_back_by"] == ["the stream gold.cloudtrail", "the consumer siem"]
    assert as_it_was[SILVER] <= stored(stack, SILVER) and not as_it_was[SILVER] & live(stack, SILVER)

    land(stack, 10, 4)
    assert stack.run() is None
    assert_every_record_accounted_for(stack)
    assert_gold_is_a_batch_over_silver(stack)
    assert len(stack.rows(str(SILVER))) == 11
    held = maintained(stack)[str(SILVER)]
    assert held["held_back_by"] == ["the consumer siem"] and held["files_removed"] <= 1
    follower.read()
    assert sorted(follower.seen) == sorted(row["event_id"] for row in stack.rows(str(SILVER))), "each event once, and none missed"

    done = maintained(stack)
    assert done[str(BRONZE)]["held_back_by"] == done[str(SILVER)]["held_back_by"] == []
    assert {table: stored(stack, table) - live(stack, table) for table in (BRONZE, SILVER)} == {BRONZE: set(), SILVER: set()}
    month_later = maintained(stack, timedelta(days=40))
    assert month_later["_ops.books"]["commits_removed"] and not month_later[str(BRONZE)]["commits_removed"]
    again = maintained(stack, timedelta(days=40))
    del again["_ops.maintenance"]  # where the one before has written that it did something
    assert {row["sentence"].split(": ", 1)[1] for row in again.values()} == {"nothing to do."}
    land(stack, 11, 12)
    assert stack.run() is None
    assert_every_record_accounted_for(stack)
    assert_gold_is_a_batch_over_silver(stack)


def live_before_silver(stack):
    """The bronze files that silver's stream has still to look at, of those that were joined since."""
    root = stack.settings.location(BRONZE)
    (need,) = needs_of(stack.settings, [stack.pipeline], BRONZE)
    return {f"{root}/{path}" for path in needed_files(stack.settings, need)}


def maintained_with_few(stack, few):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maintenance_files, "FEW_FILES", few)
        return maintained(stack)


def test_a_pinned_version_stays_readable_until_it_is_released(stack):
    for number in range(3):
        land(stack, number)
        assert stack.run() is None
    pinned = sorted(row["event_id"] for row in stack.arrow(str(SILVER), version=1).to_pylist())
    assert len(pinned) == 2
    consumer(stack, "quarter", version=1)
    silver = maintained_with_few(stack, 1)[str(SILVER)]
    assert silver["held_back_by"][0] == "the consumer quarter" and silver["kept_from_version"] == 1
    again = stack._spark.read.format("delta").option("versionAsOf", 1).load(stack.settings.location(SILVER))
    assert sorted(row.event_id for row in again.collect()) == pinned
    land(stack, 3)  # gold now names a version after the compaction
    assert stack.run() is None
    assert maintained(stack)[str(SILVER)]["held_back_by"] == ["the consumer quarter"]
    consumer(stack, "quarter", "released", version=1)
    assert maintained(stack)[str(SILVER)]["held_back_by"] == []
    assert stored(stack, SILVER) == live(stack, SILVER)


def test_hourly_runs_beside_maintenance_that_never_rests_do_not_fail_and_end_in_the_same_tables(tmp_path, spark, monkeypatch):
    monkeypatch.setattr(maintenance_files, "FEW_FILES", 1)
    joined = run_hours_beside(HOURS, tmp_path, spark).joined()
    assert set(joined) == {str(BRONZE), str(SILVER)} and len(joined) >= HOURS // 2
