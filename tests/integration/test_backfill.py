"""History enters through the pipeline's own writer: whatever the order, the tables are those of reading everything at once."""

import json
from datetime import timedelta

import pytest

from spark_jobs.io.backfill_store import BackfillStore
from spark_jobs.jobs.backfill_chunk import work_chunk
from spark_jobs.jobs.backfill_plan import plan
from spark_jobs.jobs.backfill_verify import verify
from spark_jobs.spec.backfill import BackfillRequest
from tests.builders.batch_over_silver import assert_gold_is_a_batch_over_silver
from tests.builders.history import DAYS, FIRST, history, land_history, load_in_disorder
from tests.builders.increments import published
from tests.builders.stack import Stack


@pytest.fixture(scope="module")
def ninety_days(tmp_path_factory, spark):
    """What live has read when the history arrives, and the history loaded in disorder beside hourly runs."""
    stack = Stack(tmp_path_factory.mktemp("disorder"), spark, gates=False, recent_dates=3, batch_files=64)
    land_history(stack.landing, history())
    assert stack.discover(sweep=False).new == 3
    assert stack.run() is None
    said = load_in_disorder(stack, seed=4, chunk_files=60, hourly_runs=1)
    return stack, said


def test_ninety_days_in_any_order_beside_live_runs_end_as_all_of_it_in_order_at_once(tmp_path, spark, ninety_days):
    stack, said = ninety_days
    in_order = Stack(tmp_path, spark, gates=False, batch_files=200)
    in_order.landing.rmdir()
    in_order.landing.symlink_to(stack.landing)
    assert in_order.discover(sweep=True).new == DAYS + 1
    assert in_order.run() is None
    assert published(stack) == published(in_order)
    assert stack.arrow("silver.cloudtrail_events").num_rows == 2 * DAYS + 1
    assert stack.arrow("silver.cloudtrail_events_duplicates").num_rows == DAYS - 30
    assert_gold_is_a_batch_over_silver(stack)
    assert any("were entered by others before" in sentence for sentence in said), "the second backfill says what the first has done"


def test_no_file_is_entered_twice_and_each_says_who_brought_it(ninety_days):
    stack, _ = ninety_days
    files = stack.rows("_ops.files")
    assert len({row["file_id"] for row in files}) == len(files) == DAYS + 1
    brought = {row["admitted"] for row in files}
    ids = {row["backfill_id"] for row in BackfillStore(stack.settings).all()}
    assert brought == {"live", *(f"backfill {name}" for name in ids)}
    assert sum(row["admitted"] == "live" for row in files) == 3 + 1


def test_the_figures_before_the_first_chunk_are_kept_and_its_cost_is_recorded(ninety_days):
    stack, _ = ninety_days
    for row in BackfillStore(stack.settings).all():
        assert row["state"] == "done" and row["actual_s"] > 0 and row["actual_cpu_s"] > 0
        before = json.loads(row["plan"])["before"]
        assert set(next(iter(before.values()))) == {"files", "records", "events", *map(str, [*_windowed(stack)])}
    jobs = {row["job"] for row in stack.rows("_ops.runs")}
    assert jobs == {"backfill_load"}


def test_verified_it_says_what_each_day_held_before_and_holds_now(ninety_days):
    stack, _ = ninety_days
    newest = BackfillStore(stack.settings).all()[0]
    found = verify(stack.start(), newest["backfill_id"])
    assert found["is_equal"] and "gold equals a batch over silver in all" in found["sentence"]
    assert {row["table"] for row in stack.rows("_ops.audits")} == {str(table) for table in stack.pipeline.gold_tables}
    day = FIRST + timedelta(days=70)
    assert f"| {day:%Y-%m} |" in found["markdown"] and "→" in found["markdown"], "by month, since the range is long"
    row = BackfillStore(stack.settings).get(newest["backfill_id"])
    kept = json.loads(row["plan"])
    assert row["state"] == "verified"
    assert kept["before"][str(day)]["events"] == 0
    assert kept["after"][str(day)] == {
        "files": 1, "records": 3, "events": 2, **{str(table): kept["after"][str(day)][str(table)] for table in _windowed(stack)}
    }  # fmt: skip
    assert kept["after"][str(day)]["gold.cloudtrail_activity_1h"] == 2


def test_replay_and_recompute_of_history_without_a_change_change_nothing(ninety_days):
    stack, _ = ninety_days
    before = published(stack)
    for what in ("recompute", "replay"):
        request = BackfillRequest(what, FIRST, FIRST.replace(day=5))
        row = plan(stack.start(f"again-{what}"), request)
        assert row["chunks"] == 1
        assert work_chunk(stack.start(), row["backfill_id"], 0)["state"] == "done"
        assert work_chunk(stack.start(), row["backfill_id"], 0)["sentence"].endswith("is done; there is nothing to do.")
    assert {name: rows for name, rows in published(stack).items() if "books" not in name} == {
        name: rows for name, rows in before.items() if "books" not in name
    }
    assert_gold_is_a_batch_over_silver(stack)


def _windowed(stack):
    return [stack.pipeline.gold_table(spec) for spec in stack.pipeline.gold]


def test_history_where_nothing_was_published_is_no_amendment(ninety_days):
    stack, _ = ninety_days
    assert [row for row in stack.rows("_ops.amendments") if row["brought_by"].startswith("backfill")] == []
