"""What may change between two runs or beside one: the lake's place, the code, and readers at work."""

import threading
from collections import Counter

import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import functions as F

from spark_jobs.io.lake import lake_table
from spark_jobs.io.ops import Ops
from spark_jobs.io.work import silver_app
from spark_jobs.pipelines.cloudtrail import silver
from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.corpus import FOLDER, good_file
from tests.builders.events import event_text
from tests.builders.stack import Stack


def test_a_lake_that_was_moved_elsewhere_goes_on(stack):
    stack.land(f"{FOLDER}/a.json.gz", good_file(1, 2))
    stack.discover()
    assert stack.run() is None
    elsewhere = stack.folder / "another machine" / "lake"
    elsewhere.parent.mkdir()
    (stack.folder / "lake").rename(elsewhere)
    stack.settings = stack.settings.model_copy(update={"lake": str(elsewhere)})
    stack.ops = Ops(stack.settings)
    stack.land(f"{FOLDER}/b.json.gz", good_file(2, 3))
    assert stack.discover().new == 1
    assert stack.run() is None
    accounted = assert_every_record_accounted_for(stack)
    assert (accounted.silver, accounted.duplicate) == (3, 1)
    assert not (stack.folder / "lake").exists()
    books = {(row["layer"], row["batch_id"]) for row in stack.rows("_ops.books")}
    assert {("bronze", "v1-00000001"), ("silver", "v1-00000001"), ("gold", "v1-00000001")} <= books


def test_new_code_goes_on_with_the_same_checkpoints(stack, monkeypatch):
    """A column that newer code adds, and a rule by which it refuses more records. A rule that drops rows in silence is stopped."""
    as_it_was = silver.parse_events
    stack.land(f"{FOLDER}/a.json.gz", good_file(1, 2))
    stack.discover()
    assert stack.run() is None

    monkeypatch.setattr(silver, "parse_events", lambda raw: as_it_was(raw).withColumn("is_root", F.col("principal_arn").endswith(":root")))
    stack.land(f"{FOLDER}/b.json.gz", good_file(3))
    stack.discover()
    assert stack.run() is None
    assert sorted(map(str, (row["is_root"] for row in stack.rows("silver.cloudtrail_events")))) == ["False", "None", "None"]

    is_noise = F.col("event_name") == "Noise"
    monkeypatch.setattr(silver, "parse_events", lambda raw: as_it_was(raw).where(~is_noise))
    stack.land(f"{FOLDER}/c.json.gz", good_file(4) + good_file(5, eventName="Noise"))
    stack.discover()
    assert "every bronze record of the batch was read" in str(stack.run())
    assert assert_every_record_accounted_for(stack, waiting=["silver"]).silver == 3

    def refuse_noise(raw):
        parsed = as_it_was(raw)
        refused = F.when(is_noise, F.lit("noise")).otherwise(F.col("_rule"))
        reason = F.when(is_noise, F.lit("Noise is not wanted.")).otherwise(F.col("_reason"))
        text = F.coalesce("raw", F.when(is_noise, F.lit(event_text(5, eventName="Noise"))))
        return parsed.withColumns({"_rule": refused, "_reason": reason, "raw": text})

    monkeypatch.setattr(silver, "parse_events", refuse_noise)
    assert stack.run() is None
    accounted = assert_every_record_accounted_for(stack)
    assert (accounted.silver, accounted.quarantined) == (4, 1)
    assert [row["rule"] for row in stack.rows("silver.cloudtrail_events_quarantine")] == ["noise"]


def test_a_reader_beside_a_run_of_many_batches_sees_whole_batches_only(tmp_path, spark):
    """Under `once` with two files a batch; each look of the reader is at a state between two batches, and gold at one that silver had."""
    stack = Stack(tmp_path, spark, batch_files=2, gates=False)
    seen = _Reader(stack)
    with seen:
        for times in (("20230710T1145Z", "20230710T1200Z"), ("20230710T1205Z",)):
            stack.land_sample(lambda name, times=times: name.split("_")[3] in times)
            stack.discover()
            assert stack.run() is None
    files = [row["files_read"] for row in _books(stack, "bronze")]
    assert files == [2, 1, 2, 2]
    for table, layer in {"bronze.cloudtrail_records": "bronze", "silver.cloudtrail_events": "silver"}.items():
        whole = {row["batch_id"]: row["written"] for row in _books(stack, layer)}
        looks = [look for name, look in seen.looks if name == table]
        assert len({str(look) for look in looks}) > 1, "the reader saw only one state"
        for look in looks:
            assert all(count == whole[batch] for batch, count in look.items()), f"half a batch was visible: {look} of {whole}"
            assert list(look) == list(whole)[: len(look)], "a batch was visible before an earlier one"
    assert_every_record_accounted_for(stack)
    for version, total in seen.gold:
        assert total == stack.arrow("silver.cloudtrail_events", ["_rid"], version=version).num_rows
    assert seen.gold[-1][1] == 800


class _Reader(threading.Thread):
    """Polls the tables through delta-rs until the run ends: rows per batch; and the sum of gold with the silver version that it names."""

    def __init__(self, stack):
        super().__init__(daemon=True)
        self.looks = []
        self.gold = []
        self._stack, self._ended = stack, threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._look()
        self._ended.set()
        self.join()

    def run(self):
        while not self._ended.wait(0.05):
            self._look()

    def _look(self):
        settings, pipeline = self._stack.settings, self._stack.pipeline
        for table in (pipeline.bronze_table, pipeline.silver_table):
            try:
                batches = DeltaTable(settings.location(table)).to_pyarrow_table(columns=["_batch_id"])["_batch_id"].to_pylist()
            except TableNotFoundError:
                continue
            self.looks.append((str(table), dict(sorted(Counter(batches).items()))))
        gold = lake_table(settings, pipeline.gold_tables[0])
        if gold is not None:
            version = gold.transaction_version(silver_app(settings, pipeline))  # of the one state that was opened
            self.gold.append((version, pc.sum(gold.to_pyarrow_table(columns=["event_count"])["event_count"]).as_py() or 0))


def _books(stack, layer):
    return sorted((row for row in stack.rows("_ops.books") if row["layer"] == layer), key=lambda row: row["batch_id"])
