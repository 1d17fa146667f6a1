"""The audit: a damaged cell of gold is found and named, by looking at all of them or by drawing."""

import json
from math import comb

import pyarrow as pa
import pytest
from delta.tables import DeltaTable as SparkTable
from deltalake import DeltaTable, write_deltalake

from spark_jobs.io.lake import lake_table, rows_of
from spark_jobs.io.work import named_silver_version
from spark_jobs.jobs.audit import audit
from spark_jobs.spec.errors import UnknownName
from spark_jobs.spec.tables import TableId
from tests.builders.assay_command import assay
from tests.builders.deliveries import DENIED, deliver, text
from tests.builders.landing_files import document, log_path, packed
from tests.builders.stack import Stack

ACTIVITY, PRINCIPALS = "gold.cloudtrail_activity_1h", "gold.cloudtrail_principal_activity_1h"
DENIALS, SEEN = "gold.cloudtrail_denied_15m", "gold.cloudtrail_first_seen"
HOURS, DRAWN = 60, 24


@pytest.fixture(scope="module")
def lake(tmp_path_factory, spark):
    """An event in each of 60 hours, so that each cell is alone in its window; and silver is ahead of gold by one event."""
    stack = Stack(tmp_path_factory.mktemp("audit"), spark, gates=False)
    times = [f"2024-05-0{1 + hour // 24}T{hour % 24:02}:10:00Z" for hour in range(HOURS)]
    records = [text(n, eventTime=time, eventName=f"Action{n}", **(DENIED if n < 6 else {})) for n, time in enumerate(times)]
    deliver(stack.landing, {log_path(1): packed(document(records))})
    stack.discover()
    assert stack.run() is None
    stack.daily()
    deliver(stack.landing, {log_path(2): packed(document([text(99, eventTime=times[0])]))})
    stack.discover()
    assert stack.run("bronze", "silver") is None
    return stack


def damaged(stack, table):
    return DeltaTable(stack.settings.location(TableId.parse(table)))


def by_table(results):
    return {result.table: result for result in results}


def test_all_cells_are_compared_at_the_version_that_gold_names_and_each_damage_is_named(lake, spark):
    """One scene in its order: whole, though gold lags silver; then damaged in each way that there is."""
    whole = audit(lake.start("audit-1"))
    assert [(one.table, one.mismatched, one.silver_version) for one in whole] == [(str(name), 0, 0) for name in lake.pipeline.gold_tables]
    assert [one.cells for one in whole] == [HOURS, HOURS, 18, 3, HOURS + 3]
    assert [one.cells_total for one in whole] == [HOURS, HOURS, 18, 3, HOURS + 3]
    sampled = audit(lake.start("audit-2"), cells=4)
    assert all(one.is_equal and 0 < one.cells < 20 and one.mode == "sample" for one in sampled)

    damaged(lake, ACTIVITY).update({"event_count": "event_count + 1"}, predicate="event_name = 'Action30'")
    SparkTable.forPath(spark, lake.settings.location(TableId.parse(DENIALS))).delete("window_start = timestamp '2024-05-01 02:05:00'")
    one = rows_of(damaged(lake, PRINCIPALS)).to_table().slice(0, 1)
    other = one.set_column(one.column_names.index("principal_arn"), "principal_arn", pa.array(["nobody"]))
    write_deltalake(lake.settings.location(TableId.parse(PRINCIPALS)), other, mode="append")
    damaged(lake, SEEN).update({"first_event_at": "first_event_at + interval '1 second'"}, predicate="value = 'Action7'")
    found = by_table(audit(lake.start("audit-3")))
    assert {table: one.mismatched for table, one in found.items()} == {
        ACTIVITY: 1, PRINCIPALS: 1, DENIALS: 1, "gold.cloudtrail_account_activity_1d": 0, SEEN: 1,
    }  # fmt: skip
    (cell,) = found[ACTIVITY].mismatches
    assert cell == {
        "window_start": "2024-05-02T06:00:00Z", "account_id": "111122223333", "aws_region": "eu-west-1",
        "event_source": "s3.amazonaws.com", "event_name": "Action30", "column": "event_count", "gold": 2, "silver": 1,
    }  # fmt: skip
    assert "event_name Action30: event_count: gold says 2, silver says 1." in found[ACTIVITY].sentence
    (cell,) = found[DENIALS].mismatches
    assert (cell["window_start"], cell["gold"], cell["silver"]) == ("2024-05-01T02:05:00Z", "no row", "denied_count=1")
    (cell,) = found[PRINCIPALS].mismatches
    assert (cell["principal_arn"], cell["silver"]) == ("nobody", "no row")
    (cell,) = found[SEEN].mismatches
    assert (cell["kind"], cell["value"], cell["column"]) == ("event_name", "Action7", "first_event_at")
    recorded = [row for row in lake.rows("_ops.audits") if row["run_id"] == "audit-3"]
    assert len({row["audit_id"] for row in recorded}) == 1
    assert {row["table"]: (row["mismatched"], row["is_equal"]) for row in recorded} == {
        table: (one.mismatched, one.is_equal) for table, one in found.items()
    }
    assert json.loads(next(row for row in recorded if row["table"] == ACTIVITY)["mismatches"]) == list(found[ACTIVITY].mismatches)

    # A cell that gold has twice, and days: only those that are asked for.
    write_deltalake(lake.settings.location(TableId.parse(PRINCIPALS)), one, mode="append")
    days = {"tables": [ACTIVITY, PRINCIPALS, SEEN], "dates": [one["window_date"][0].as_py()]}
    twice = by_table(audit(lake.start("audit-4"), **days))
    assert {table: (one.cells, one.mismatched) for table, one in twice.items()} == {ACTIVITY: (24, 0), PRINCIPALS: (25, 2), SEEN: (27, 1)}
    assert "2 rows" in str(twice[PRINCIPALS].mismatches)
    with pytest.raises(UnknownName, match="There is no gold table gold"):
        audit(lake.start("audit-5"), tables=["gold.x"])

    # Drawing: half of the cells are rows of gold. The odds that none of `audits` draws has the damaged row are below 1 in 100.
    missed = comb(HOURS - 1, DRAWN // 2) / comb(HOURS, DRAWN // 2)
    audits = next(number for number in range(1, 100) if missed**number < 0.01)
    for number in range(audits):
        (one,) = audit(lake.start(f"draw-{number}"), tables=[ACTIVITY], cells=DRAWN)
        if not one.is_equal:
            break
    assert not one.is_equal, f"{audits} audits of {DRAWN} cells did not draw it"
    assert one.mismatches == found[ACTIVITY].mismatches

    # As a person or the daily DAG asks: exit code 5, and the cell in words.
    done = assay(lake.settings, "audit", "--full", "--table", ACTIVITY, exit_code=5)
    assert "event_name Action30: event_count: gold says 2, silver says 1." in done.stderr
    assert named_silver_version(lake.settings, lake.pipeline, TableId.parse(ACTIVITY)) == 0
    assert lake_table(lake.settings, lake.pipeline.silver_table).version() == 1
