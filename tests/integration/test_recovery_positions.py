"""Our reading of Delta's offsets is Delta's own: what we say is still ahead of an offset is what the stream reads after it."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from spark_jobs.io.delta_log import START, Position, added_files
from spark_jobs.io.delta_tables import read_stream
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import TableId

TABLE = TableId("bronze", "x_records")


def test_what_is_ahead_of_each_offset_is_what_the_stream_reads_after_it(tmp_path, spark):
    settings = load_settings(lake=str(tmp_path / "lake"))
    location = settings.location(TABLE)
    spark.range(0, 30, 1, 3).write.format("delta").save(location)  # version 0: three files
    spark.range(30, 50, 1, 2).write.format("delta").mode("append").save(location)
    DeltaTable(location).optimize.compact()  # version 2: rearranges, adds nothing
    _commit_new_and_moved_files(location)  # version 3: a moved file between two new ones
    spark.range(80, 90, 1, 1).write.format("delta").mode("append").save(location)

    seen: dict[int, set[int]] = {}
    checkpoint = tmp_path / "checkpoint"
    query = (
        read_stream(spark, settings, TABLE, maxFilesPerTrigger="1")
        .writeStream.option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .foreachBatch(lambda batch, number: seen.update({number: {row.id for row in batch.collect()}}))
        .start()
    )
    query.awaitTermination()

    positions = {number: Position.of_offset((checkpoint / "offsets" / str(number)).read_text().splitlines()[2]) for number in seen}
    assert any(position.index >= 0 for position in positions.values()), "no batch ended inside a version"
    assert {position.version for position in positions.values() if position.index >= 0} == {0, 1, 3}
    before = _ahead(settings, START)
    assert len(before) == 8
    for number in sorted(seen):
        after = _ahead(settings, positions[number])
        read = [id for path, ids in before.items() if path not in after for id in ids]
        assert set(read) == seen[number], f"batch {number}, offset {positions[number]}"
        before = after
    assert before == {}
    assert set().union(*seen.values()) == {*range(50), *range(60, 70), *range(70, 90)}


def _ahead(settings, position):
    root = Path(settings.location(TABLE))
    return {file.path: pq.read_table(root / file.path)["id"].to_pylist() for file in added_files(settings, TABLE, position)}


def _commit_new_and_moved_files(location):
    actions = []
    for name, ids, is_new in (("new-1", range(60, 70), True), ("moved", range(10), False), ("new-2", range(70, 80), True)):
        path = Path(location) / f"{name}.parquet"
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), path)
        actions.append(AddAction(path.name, path.stat().st_size, {}, 0, is_new, json.dumps({"numRecords": 10})))
    DeltaTable(location).create_write_transaction(actions, mode="append", schema=pa.schema([("id", pa.int64())]))
