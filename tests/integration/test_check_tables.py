"""The suites over whole tables, on the sample: as it is, with a layer behind, and broken in ways that no batch can show."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_jobs.jobs.check_tables import check_tables
from spark_jobs.jobs.gate import gate
from spark_jobs.jobs.run import Run
from spark_jobs.report.batches import waiting_batches
from spark_jobs.report.views import LakeViews
from spark_jobs.spec.tables import TableId
from tests.builders.corpus import FOLDER, good_file
from tests.builders.stack import Stack

SILVER = TableId("silver", "cloudtrail_events")


def checked(stack: Stack, monkeypatch: pytest.MonkeyPatch, run_id: str) -> dict:
    monkeypatch.setattr("spark_jobs.jobs.check_tables.BETWEEN_S", 0.0)
    run = Run(stack.settings, stack.pipeline, run_id, stack.clock, small=True)
    run._session.append(stack._spark)
    return check_tables(run) | {"gate": gate(run, "tables")}


def failed(stack: Stack, run_id: str) -> dict[str, str]:
    rows = [row for row in stack.rows("_ops.verdicts") if row["run_id"] == run_id and not row["success"]]
    return {row["expected"]: row["observed"] for row in rows}


def broken(stack: Stack, rows: pa.Table, **how: str) -> None:
    write_deltalake(stack.settings.location(SILVER), rows, partition_by=["event_date"], **(how or {"mode": "append"}))


OLD = "the newest event is as fresh as declared"  # the sample is of 2023


def test_whole_tables_agree_and_each_break_is_found_and_named(tmp_path, spark, monkeypatch):
    stack = Stack(tmp_path, spark, gates=False)
    assert checked(stack, monkeypatch, "before")["outcome"] == "none"
    stack.land_sample(lambda name: name.split("_")[3] <= "20230710T1205Z")
    stack.land(f"{FOLDER}/again.json.gz", good_file(1) + good_file(1, 2))
    stack.discover()
    assert stack.run() is None

    found = checked(stack, monkeypatch, "good")
    bronze, silver = (len(stack.rows(name, ["_rid"])) for name in ("bronze.cloudtrail_records", str(SILVER)))
    facts = found["facts"]
    assert (facts["records"], facts["in_bronze"], facts["bronze_rows"], facts["in_silver"]) == (bronze,) * 4 and silver == bronze - 1
    assert facts["gold"]["gold.cloudtrail_activity_1h"] == (silver, silver)
    denied = facts["gold"]["gold.cloudtrail_denied_15m"]
    assert denied[0] == denied[1] == sum(row["denied_count"] for row in stack.rows("gold.cloudtrail_denied_15m", ["denied_count"]))
    assert (found["outcome"], found["gate"]["outcome"]) == ("warn", "warn") and list(failed(stack, "good")) == [OLD]
    assert "is not over" in facts["volume"]["not_judged"]
    assert waiting_batches(LakeViews(stack.settings)) == [], "a verdict on whole tables is no batch that waits"

    # Silver is behind: what it has not read yet is counted where it lies.
    stack.land(f"{FOLDER}/more.json.gz", good_file(3, 4))
    stack.discover()
    assert stack.run("bronze") is None
    assert list(failed_of(stack, monkeypatch, "behind")) == [OLD]

    # A day is followed from its files on: yesterday's run sees the same.
    stack.clock = lambda: datetime.now(UTC) + timedelta(days=1)
    assert checked(stack, monkeypatch, "tomorrow")["day"] == datetime.now(UTC).date()
    assert "the newest file is as fresh as declared" in failed(stack, "tomorrow")
    stack.clock = lambda: datetime.now(UTC)

    rows = stack.arrow(str(SILVER))
    one = rows.filter(pc.field("event_date") == pc.min(rows["event_date"])).slice(0, 1)
    broken(stack, one)
    assert set(failed_of(stack, monkeypatch, "twice")) == {
        OLD,
        "no event_id occurs twice on one date of the whole table",
        "the day's bronze rows are in silver, quarantine, duplicates or held, or wait to be read",
    }
    assert checked(stack, monkeypatch, "gate")["gate"]["outcome"] == "stop"
    DeltaTable(stack.settings.location(SILVER)).restore(DeltaTable(stack.settings.location(SILVER)).version() - 1)

    elsewhere = one.set_column(one.column_names.index("event_date"), "event_date", pa.array([datetime(2023, 7, 9).date()]))
    other_file = elsewhere.set_column(one.column_names.index("_rid"), "_rid", pa.array([f"{'0' * 32}:0"]))
    broken(stack, other_file)
    assert set(failed_of(stack, monkeypatch, "two dates")) == {OLD, "no event_id occurs under two dates"}


def failed_of(stack, monkeypatch, run_id):
    checked(stack, monkeypatch, run_id)
    return failed(stack, run_id)
