"""The main job on the real sample: everything arrives, everything balances, the increment is exact."""

import gzip
import json
from collections import Counter

from tests.builders.stack import SAMPLE

FIRST = "20230710T1205Z"  # 7 files, 800 records; the other 29 hold 1,292


def test_the_sample_arrives_in_two_runs_and_every_record_is_accounted_for(stack):
    assert len(stack.land_sample(lambda name: name.split("_")[3] <= FIRST)) == 7
    stack.discover()
    assert stack.run() is None
    assert _hours(stack) == {11: 740, 12: 60}
    stack.land_sample(lambda name: name.split("_")[3] > FIRST)
    stack.discover()
    assert stack.run() is None
    assert _hours(stack) == {11: 740, 12: 1352}

    books = stack.rows("_ops.books")
    assert all(row["is_balanced"] for row in books)
    bronze = [row for row in books if row["layer"] == "bronze"]
    assert [(row["files_read"], row["read"]) for row in sorted(bronze, key=lambda row: row["batch_id"])] == [(7, 800), (29, 1292)]
    silver = stack.rows("silver.cloudtrail_events", ["event_id", "error_code"])
    assert len(silver) == 2092
    assert sum(row["error_code"] is not None for row in silver) == 200
    outcomes = Counter(row["outcome"] for row in stack.rows("_ops.verdicts"))
    assert set(outcomes) == {"pass"}


def test_bronze_rows_put_together_again_equal_the_files_byte_for_byte(stack):
    stack.land_sample()
    stack.discover()
    stack.run("bronze")
    records = stack.arrow("bronze.cloudtrail_records", ["_source_file", "_record_index", "raw"]).to_pylist()
    by_file: dict[str, list] = {}
    for row in sorted(records, key=lambda row: row["_record_index"]):
        by_file.setdefault(row["_source_file"].rsplit("/", 1)[-1], []).append(row["raw"])
    for source in SAMPLE.rglob("*.gz"):
        original = gzip.decompress(source.read_bytes()).decode()
        assert '{"Records":[' + ",".join(by_file[source.name]) + "]}\n" == original


def test_running_again_with_nothing_new_changes_no_table(stack):
    stack.land_sample(lambda name: name.split("_")[3] <= FIRST)
    stack.discover()
    stack.run()
    before = {table: stack.arrow(str(table)).num_rows for table in stack.pipeline.all_tables}
    stack.discover(sweep=True)
    stack.run()
    assert {table: stack.arrow(str(table)).num_rows for table in stack.pipeline.all_tables} == before
    assert len(stack.rows("_ops.books")) == 5


def test_gold_equals_a_batch_over_silver_at_the_version_it_names(stack, spark):
    from spark_jobs.io.delta_tables import read_table
    from spark_jobs.io.work import named_silver_version
    from spark_jobs.pipelines.cloudtrail.gold import TABLES

    stack.land_sample(lambda name: name.split("_")[3] <= FIRST)
    stack.discover()
    stack.run()
    stack.land_sample()
    stack.discover()
    stack.run()
    for spec in stack.pipeline.gold_of("hourly"):
        table = stack.pipeline.gold_table(spec)
        silver = read_table(spark, stack.settings, stack.pipeline.silver_table, named_silver_version(stack.settings, stack.pipeline, table))
        expected = sorted(json.dumps(row.asDict(), default=str, sort_keys=True) for row in TABLES[spec.subject](silver).collect())
        published = read_table(spark, stack.settings, table)
        assert sorted(json.dumps(row.asDict(), default=str, sort_keys=True) for row in published.collect()) == expected


def _hours(stack):
    activity = stack.rows("gold.cloudtrail_activity_1h", ["window_start", "event_count"])
    counted = Counter()
    for row in activity:
        counted[row["window_start"].hour] += row["event_count"]
    return dict(counted)
