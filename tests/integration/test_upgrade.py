"""New code while data arrives: on the same checkpoints where the doctor says safe, or on a lake of its own beside the old one."""

import threading
from dataclasses import replace

import pytest
from pyspark.sql import functions as F

from spark_jobs.jobs import publishing
from spark_jobs.jobs.doctor import SAFE
from spark_jobs.pipelines.cloudtrail import gold, silver
from tests.builders.corpus import FOLDER, good_file
from tests.builders.damages import verdicts
from tests.builders.ended_at import ended_at
from tests.builders.stack import Stack

SILVER, QUARANTINE = "silver.cloudtrail_events", "silver.cloudtrail_events_quarantine"
OLD, NEW = "gold.cloudtrail_activity_1h", "gold.cloudtrail_activity_hourly"
LAST_FILE = 8


class Arriving(threading.Thread):
    """Files that land and are listed one after the other, whatever the runs do meanwhile; from file 5 on each brings an event of noise."""

    def __init__(self, stack):
        super().__init__(daemon=True)
        self.stack, self.number, self.may_end = stack, 0, threading.Event()
        self.rests = threading.Event()

    def land_next(self):
        self.number += 1
        content = good_file(self.number, 100 + self.number)
        if self.number >= 5:
            content += good_file(200 + self.number, eventName="Noise")
        self.stack.land(f"{FOLDER}/{self.number:02d}.json.gz", content)
        self.stack.discover()

    def run(self):
        while self.number < LAST_FILE:
            if self.number == 4:  # noise comes when the new code is there
                self.may_end.wait()
            self.land_next()
            self.rests.wait(0.5)


def new_code(patch, stack):
    """A filter for noise, a column, and a gold table under another name."""
    as_it_was = silver.parse_events

    def parse(raw):
        parsed, is_noise = as_it_was(raw), F.col("event_name") == "Noise"
        refused = F.when(is_noise, F.lit("noise")).otherwise(F.col("_rule"))
        reason = F.when(is_noise, F.lit("Noise is not wanted.")).otherwise(F.col("_reason"))
        text = F.when(is_noise, F.lit("noise")).otherwise(F.col("raw"))
        return parsed.withColumns({"_rule": refused, "_reason": reason, "raw": text, "is_root": F.col("principal_arn").endswith(":root")})

    patch.setattr(silver, "parse_events", parse)
    patch.setitem(gold.TABLES, "activity_hourly", gold.TABLES["activity_1h"])
    first, *others = stack.pipeline.gold
    return replace(stack.pipeline, gold=(replace(first, subject="activity_hourly"), *others))


@pytest.fixture
def stacks(tmp_path, spark):
    """The lake that is upgraded, and one beside it over the same landing folder."""
    one = Stack(tmp_path, spark, gates=False)
    beside = Stack(tmp_path / "beside", spark, gates=False, landing=str(one.landing))
    beside.landing = one.landing
    return one, beside


def test_new_code_goes_on_with_the_same_checkpoints_while_data_arrives_and_so_does_a_lake_beside(stacks, monkeypatch):
    stack, beside = stacks
    arriving = Arriving(stack)
    arriving.land_next()
    arriving.start()
    assert stack.run() is None
    arriving.land_next()
    assert stack.run("bronze") is None
    with ended_at(publishing, "append_once"):
        stack.run("silver")  # the old code dies in a batch that the new code has to make again

    stack.pipeline = beside.pipeline = new_code(monkeypatch, stack)
    said = verdicts(stack)
    assert {verdict for verdict, _ in said.values()} == {SAFE}
    assert "was begun and not finished: it is made again in the same bounds" in said[SILVER][1]
    assert f"{NEW} is not there (new, or removed)" in said["gold.cloudtrail"][1]
    beside.discover()
    assert beside.run() is None  # with the new code from the first file on, while the old lake goes on
    arriving.may_end.set()
    while arriving.is_alive():
        assert stack.run() is None
    arriving.join()
    for one in (stack, beside):
        one.discover()
        assert one.run() is None

    numbers = range(1, LAST_FILE + 1)
    assert len(stack.rows(SILVER)) == 2 * len(numbers) and len(stack.rows(QUARANTINE)) == LAST_FILE - 4
    assert {row["is_root"] for row in stack.rows(SILVER)} == {None, False}
    assert {row["is_root"] for row in beside.rows(SILVER)} == {False}
    for table in ("bronze.cloudtrail_records", SILVER, QUARANTINE, NEW, *map(str, stack.pipeline.gold_tables_of("hourly")[1:])):
        assert _content(stack, table) == _content(beside, table), table
    assert _content(stack, OLD) != _content(stack, NEW) and not beside.rows(OLD)
    assert all(row["is_balanced"] for row in stack.rows("_ops.books"))


def _content(stack, table):
    """Rows without what each lake says by itself; the new column is told of above."""
    own = {"is_root", "_ingested_at", "_ingest_date", "_listed_at", "_batch_id"}
    return sorted(str({name: value for name, value in row.items() if name not in own}) for row in stack.rows(table))
