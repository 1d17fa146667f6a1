"""Daily gold: the same code as hourly gold at another cadence, which neither waits for the other."""

import json
from datetime import date

import pytest
from deltalake import CommitProperties, DeltaTable

from spark_jobs.io.delta_tables import merge_once
from spark_jobs.io.lake import lake_table
from spark_jobs.io.lease import Leases
from spark_jobs.io.work import unfinished_layers
from spark_jobs.jobs import first_seen
from spark_jobs.jobs.build_daily_gold import build_daily_gold
from spark_jobs.jobs.build_gold import recompute
from spark_jobs.jobs.gate import gate
from spark_jobs.jobs.run import Run
from spark_jobs.spec.errors import BooksUnbalanced
from spark_jobs.spec.replays import replay_id
from spark_jobs.spec.tables import DECISIONS
from tests.builders.batch_over_silver import assert_gold_is_a_batch_over_silver
from tests.builders.deliveries import FIRST, SECOND, deliver, text
from tests.builders.landing_files import document, log_path, packed
from tests.builders.stricter import demand, with_policy

DAY = "gold.cloudtrail_account_activity_1d"


def test_daily_tables_are_brought_up_by_the_daily_run_alone_and_a_stopped_batch_keeps_its_name(stack, monkeypatch):
    deliver(stack.landing, FIRST)
    stack.discover()
    assert stack.run() is None
    assert not stack.rows(DAY), "the hourly run leaves daily tables alone"
    assert unfinished_layers(stack.settings, stack.pipeline) == []
    first = stack.daily("daily-1")
    assert DAY in first["tables"]
    assert first["stopped"] is None
    assert gate(stack.start("daily-1"), "gold")["outcome"] == "pass"
    assert_gold_is_a_batch_over_silver(stack, "hourly", "daily")

    idle = Run(stack.settings, stack.pipeline, "daily-2")
    before = stack.rows("_ops.books")
    assert build_daily_gold(idle) == {"tables": [], "stopped": None}
    assert not idle.has_session, "with nothing new it starts no JVM"
    assert stack.rows("_ops.books") == before

    # A stop leaves the table as it was and the hourly run alone; the next days' batch has the same name until it is released.
    pipeline = stack.pipeline
    stack.pipeline = with_policy(pipeline, "gold", "stop")
    with monkeypatch.context() as patch:
        demand(patch, "gold", "event_count < 0", ["event_count"], "account_activity_1d")
        deliver(stack.landing, SECOND)
        stack.discover()
        assert stack.run() is None
        assert "Nothing was committed" in stack.daily("daily-3")["stopped"]
        assert gate(stack.start("daily-3"), "gold")["outcome"] == "stop"
        deliver(stack.landing, {log_path(30): packed(document([text(200, eventTime="2024-05-03T01:00:00Z")]))})
        stack.discover()
        assert stack.run() is None
        assert_gold_is_a_batch_over_silver(stack, "hourly")
        assert stack.daily("daily-4")["stopped"]
        verdicts = {(row["run_id"], row["batch_id"]) for row in stack.rows("_ops.verdicts") if row["table"] == DAY}
        assert verdicts == {("daily-1", "daily-00000000"), ("daily-3", "daily-00000001"), ("daily-4", "daily-00000001")}
        decided = {
            "pipeline": "cloudtrail",
            "table": DAY,
            "batch_id": "daily-00000001",
            "decision": "release",
            "who": "ann",
            "note": "fine",
        }
        stack.ops.append(DECISIONS, [{"decision_id": "d", "decided_at": stack.clock(), **decided}])
        assert stack.daily("daily-5")["stopped"] is None
    stack.pipeline = pipeline
    assert_gold_is_a_batch_over_silver(stack, "hourly", "daily")
    books = [row for row in stack.rows("_ops.books") if row["table"] == DAY]
    assert sorted((row["batch_id"], row["decision"], row["read"], row["written"]) for row in books) == [
        ("daily-00000000", None, 10, 10),
        ("daily-00000001", "release", 17, 17),
    ]
    assert stack.daily()["tables"] == []


SEEN = "gold.cloudtrail_first_seen"


def test_history_that_arrives_later_moves_a_first_event_earlier_and_the_commit_counts_it(stack, spark):
    def bring(number, *records):
        deliver(stack.landing, {log_path(number): packed(document(records))})
        stack.discover()
        assert stack.run() is None
        assert stack.daily()["stopped"] is None
        assert_gold_is_a_batch_over_silver(stack, "hourly", "daily")
        (books,) = [row for row in stack.rows("_ops.books") if row["table"] == SEEN and row["batch_id"] == f"daily-{number:08d}"]
        return books["read"], books["written"], books["duplicate"]

    def first(value):
        (row,) = [row for row in stack.rows(SEEN) if row["value"] == value]
        return f"{row['first_event_at']:%d %H:%M}", row["kind"], row["event_id"]

    # Two events at one instant: the smaller event id is first, whichever comes first.
    twins = sorted((text(1), text(2)), key=lambda one: json.loads(one)["eventID"])
    assert bring(0, twins[1]) == (4, 4, 0)
    assert first("GetObject") == ("01 12:30", "event_name", json.loads(twins[1])["eventID"])
    assert bring(1, twins[0], text(3, eventTime="2024-05-01T12:30:16Z", userAgent="Boto3")) == (5, 5, 0)
    assert first("GetObject")[2] == json.loads(twins[0])["eventID"]
    # Later events of known values: a MERGE that changes nothing still names the silver version, and carries no file.
    assert bring(2, text(4, eventTime="2024-05-02T00:00:00Z", userAgent=...)) == (3, 0, 3)
    # History: all earlier, from an address never seen and in another account.
    assert bring(3, text(5, eventTime="2019-01-01T00:00:00Z", sourceIPAddress="203.0.113.9")) == (4, 4, 0)
    assert first("203.0.113.9")[:2] == ("01 00:00", "source_address")
    assert first("GetObject")[:2] == ("01 00:00", "event_name")
    assert not [
        name for name in spark.conf.getAll if name.startswith(("spark.databricks.delta.write", "spark.databricks.delta.commitInfo"))
    ]


def test_a_merge_that_wrote_another_number_than_was_counted_fails_its_books(stack, monkeypatch):
    deliver(stack.landing, FIRST)
    stack.discover()
    assert stack.run() is None

    def loses_a_row(settings, table, changes, **how):
        merge_once(settings, table, changes.limit(changes.count() - 1), **how)

    monkeypatch.setattr(first_seen, "merge_once", loses_a_row)
    with pytest.raises(BooksUnbalanced, match=f"{SEEN}: the books of batch daily-00000000 do not balance: 4 read ≠ 3 written"):
        stack.daily()


def test_days_are_computed_again_on_demand_and_rows_that_silver_changed_or_lost_are_followed(stack):
    deliver(stack.landing, {**FIRST, **SECOND})
    stack.discover()
    assert stack.run() is None
    stack.daily()
    day, tables = date(2024, 5, 1), stack.pipeline.gold_tables

    def versions():
        return [lake_table(stack.settings, table).version() for table in tables]

    def again(mark):
        run = stack.start(mark)
        with Leases(stack.settings, tables, run.run_id) as leases:
            recompute(run, leases, [day], mark)

    # Gold was damaged by hand, and names silver's latest version: nothing but a forced computation would mend it.
    for table, change in zip(tables, ("event_count", "event_count", "denied_count", "event_count", ""), strict=True):
        damaged = DeltaTable(stack.settings.location(table))
        if change:
            damaged.update({change: f"{change} + 5"}, predicate="window_date = '2024-05-01'")
        else:
            damaged.update({"first_event_at": "first_event_at - interval '1 hour'"})
    before = versions()
    again("bf1-0001")
    assert_gold_is_a_batch_over_silver(stack, "hourly", "daily")
    assert versions() == [version + 1 for version in before]
    books = [row for row in stack.rows("_ops.books") if row["batch_id"] == "bf1-0001"]
    assert sorted(row["table"] for row in books) == sorted(map(str, tables))
    assert all(row["is_balanced"] for row in books)
    again("bf1-0001")
    assert versions() == [version + 1 for version in before], "a second call with the mark changes nothing"

    # A replay changes silver's rows in place: an event leaves, another moves to another hour. Gold follows at its next run.
    silver = DeltaTable(stack.settings.location(stack.pipeline.silver_table))
    note = CommitProperties(custom_metadata={"userMetadata": json.dumps({"batch_id": replay_id("by-hand")})})
    leaves, moves = (json.loads(text(number))["eventID"] for number in (12, 15))
    silver.delete(f"event_id = '{leaves}'", commit_properties=note)
    silver.update(
        {"event_time": "event_time + interval '3 hours'", "user_agent": "'other'"},
        predicate=f"event_id = '{moves}'",
        commit_properties=note,
    )
    assert "gold" in unfinished_layers(stack.settings, stack.pipeline)
    assert stack.run() is None
    assert unfinished_layers(stack.settings, stack.pipeline) == []
    assert stack.daily()["stopped"] is None
    assert_gold_is_a_batch_over_silver(stack, "hourly", "daily")
    silver.delete("event_date = '2024-05-02'", commit_properties=note)  # a commit that adds no file
    assert stack.run() is None
    assert stack.daily()["stopped"] is None
    assert_gold_is_a_batch_over_silver(stack, "hourly", "daily")
