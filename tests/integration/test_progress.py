"""Each batch's progress, compared with the books of the same batch and with what landed."""

import json

import pytest

from spark_jobs.io.query_state import QueryStates
from spark_jobs.jobs.build_daily_gold import build_daily_gold
from spark_jobs.jobs.run_layers import run_in_turn
from spark_jobs.spec.tables import PROGRESS
from tests.builders.progress_of_books import assert_progress_matches_books
from tests.builders.stack import Stack


def test_each_batch_leaves_one_row_with_what_its_books_and_the_landed_files_say(tmp_path, spark):
    stack = Stack(tmp_path, spark, batch_files=3, gates=False, progress=True)
    landed = stack.land_sample(lambda name: name.split("_")[3] <= "20230710T1205Z")
    stack.discover()
    run = stack.start("live")
    run.batch_limit["bronze.cloudtrail_records"] = 64_000_000
    run_in_turn(run, ("bronze", "silver", "gold"), [])
    build_daily_gold(run)
    run.close()

    assert_progress_matches_books(stack)
    rows = {(row["table"], row["batch_id"]): row for row in stack.rows("_ops.progress")}
    bronze = [row for (table, _), row in sorted(rows.items()) if table == "bronze.cloudtrail_records"]
    size = sum(path.stat().st_size for path in landed)
    assert sum(row["batch_bytes"] for row in bronze) == size
    taken = 0
    for row, left in zip(bronze, (len(landed) - 3, len(landed) - 6, 0), strict=True):
        taken += row["batch_bytes"]
        assert (row["lag_files"], row["lag_bytes"], row["batch_limit"]) == (left, size - taken, 64_000_000)
        assert (row["lag_minutes"] > 0) == (left > 0)
        assert row["processed_rows_per_s"] * row["duration_ms"] / 1000 == pytest.approx(row["input_rows"], abs=1)
    assert bronze[0]["input_rows_per_s"] is None and bronze[1]["input_rows_per_s"] > 0  # the first batch has none before it
    gold = rows["gold.cloudtrail", "v1-00000000"]
    assert gold["input_rows"] == sum(row["input_rows"] for row in bronze)  # silver's rows: the query itself reads none of them
    assert set(json.loads(gold["targets"])) == {str(table) for table in stack.pipeline.gold_tables_of("hourly")}
    assert {"addBatch", "triggerExecution", "walCommit"} <= set(json.loads(gold["phases"]))
    newest = max(row["event_time"] for row in stack.rows("silver.cloudtrail_events", ["event_time"]))
    assert gold["newest_event_at"] == rows["silver.cloudtrail_events", "v1-00000000"]["newest_event_at"] == newest
    assert all(row["newest_event_at"] is None for row in bronze)  # it is text as yet
    assert QueryStates(stack.settings).read("gold.cloudtrail")["message"] == "Ended"
    daily = [row for (table, _), row in rows.items() if table in map(str, stack.pipeline.gold_tables_of("daily"))]
    assert len(daily) == 2 and all(row["phases"] is None for row in daily)  # no stream ran them


def test_progress_that_cannot_be_written_fails_no_batch_and_is_said_once(tmp_path, spark, capsys):
    stack = Stack(tmp_path, spark, batch_files=3, gates=False, progress=True)
    landed = stack.land_sample(lambda name: name.split("_")[3] <= "20230710T1205Z")
    stack.discover()
    where = tmp_path / "lake" / PROGRESS.folder
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_text("no folder")
    assert stack.run("bronze") is None
    assert sum(row["files_ok"] for row in stack.rows("_ops.books")) == len(landed)
    said = capsys.readouterr().err
    assert said.count("The progress of batches cannot be written") == 1
    assert "The progress of 3 batches was not kept; their books are." in said
