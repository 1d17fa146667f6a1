"""Changing rows of a Delta table in place with Spark: for replays, which are the one thing that does so."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.io.delta_log import Position, added_files
from spark_jobs.io.delta_tables import _alone as alone
from spark_jobs.io.delta_tables import read_table, spark_location
from spark_jobs.io.lake import lake_table, rows_of
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENTER, SET, LEAVE = "enter", "set", "leave"


def change_once(
    settings: Settings, table: TableId, changes: DataFrame, *, date_column: str, dates: Sequence[date], app: str, transaction: int,
    note: Mapping[str, Any],
) -> None:  # fmt: skip
    """Let rows enter, take other values, and leave, in one commit that carries the transaction and the note.

    `changes` has the table's columns, `_change` (ENTER, SET or LEAVE) and `_at`: for SET and LEAVE the `date_column` of the row with that
    `_rid` in the table (one of `dates`: only their files are looked at), null for ENTER. A second call with the transaction writes nothing.
    """
    from delta.tables import DeltaTable

    spark, location = changes.sparkSession, spark_location(settings, table)
    columns = [name for name in changes.columns if name not in ("_change", "_at")]
    if set(columns) - set(read_table(spark, settings, table).columns):  # a column of newer code joins the table first
        changes.select(columns).limit(0).write.format("delta").mode("append").option("mergeSchema", "true").save(location)
    days = ", ".join(f"date'{day}'" for day in dates)
    values: Any = {f"`{name}`": f"s.`{name}`" for name in columns}
    merge = (
        DeltaTable.forPath(spark, location)
        .alias("t")
        .merge(changes.alias("s"), f"t.`{date_column}` in ({days}) and t.`{date_column}` = s._at and t._rid = s._rid")
        .whenMatchedDelete(f"s._change = '{LEAVE}'")
        .whenMatchedUpdate(f"s._change = '{SET}'", values)
        .whenNotMatchedInsert(f"s._change = '{ENTER}'", values)
    )
    carried = {
        "spark.databricks.delta.write.txnAppId": app,
        "spark.databricks.delta.write.txnVersion": str(transaction),
        "spark.databricks.delta.commitInfo.userMetadata": json.dumps(note),
    }
    with alone(table), _conf(spark, carried):
        merge.execute()


def take_out(spark: SparkSession, settings: Settings, table: TableId, rids: DataFrame, batch_id: str) -> None:
    """Remove the rows of a side table with these `_rid`s, except those that batch `batch_id` wrote. No commit when there are none."""
    from delta.tables import DeltaTable
    from pyspark.sql import functions as F

    if lake_table(settings, table) is None:
        return
    others = read_table(spark, settings, table).where(F.col("_batch_id") != batch_id)
    leaving = others.join(F.broadcast(rids), on="_rid", how="left_semi").select("_rid").distinct()
    if leaving.isEmpty():
        return
    target = DeltaTable.forPath(spark, spark_location(settings, table)).alias("t")
    with alone(table):
        target.merge(leaving.alias("s"), f"t._rid = s._rid and t._batch_id != '{batch_id}'").whenMatchedDelete().execute()


def take_out_batches(spark: SparkSession, settings: Settings, table: TableId, batch_ids: Sequence[str]) -> None:
    """Remove the rows that carry one of these batch ids. No commit when there are none."""
    from delta.tables import DeltaTable
    from pyspark.sql import functions as F

    found = lake_table(settings, table)
    if found is None or not rows_of(found).count_rows(filter=pc.field("_batch_id").isin(list(batch_ids))):
        return
    with alone(table):
        DeltaTable.forPath(spark, spark_location(settings, table)).delete(F.col("_batch_id").isin(list(batch_ids)))


def rids_in_commit(spark: SparkSession, settings: Settings, table: TableId, version: int, batch_id: str) -> DataFrame:
    """The `_rid`s of the rows that a commit wrote under a batch id, from its own files; a rewritten file holds others' rows too."""
    root = spark_location(settings, table)
    paths = [f"{root}/{file.path}" for file in added_files(settings, table, Position(version, -1), version)]
    schema = "_rid string, _batch_id string"
    rows = spark.read.schema(schema).parquet(*paths) if paths else spark.createDataFrame([], schema)
    return rows.where(rows["_batch_id"] == batch_id).select("_rid")


def rids_of_batch(spark: SparkSession, settings: Settings, table: TableId, batch_id: str) -> DataFrame:
    """The `_rid`s of a side table's rows of a batch."""
    from pyspark.sql import functions as F

    if lake_table(settings, table) is None:
        return spark.createDataFrame([], "_rid string")
    return read_table(spark, settings, table).where(F.col("_batch_id") == batch_id).select("_rid")


def rows_by_rid(spark: SparkSession, rids: Sequence[str]) -> DataFrame:
    """Record ids as a frame of one column `_rid`."""
    return spark.createDataFrame(pa.table({"_rid": pa.array(rids, pa.string())}))


@contextmanager
def _conf(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """MERGE has no options: it takes transaction and note from the session, where they must not stay for the next write."""
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in values:
            spark.conf.unset(name)
