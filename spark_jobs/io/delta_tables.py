"""Writing lake tables with Spark: one commit per batch, exactly once, with a note of what it holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from spark_jobs.io.lake import commit_metadata, lake_table, rows_of
from spark_jobs.io.work import commit_notes
from spark_jobs.spec.errors import LeaseLost
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


OF_MAINTENANCE = ("OPTIMIZE", "SET TBLPROPERTIES")
MEETINGS = 5  # with maintenance in one commit; it commits once or twice per table and day


def append_once(
    settings: Settings, table: TableId, rows: DataFrame, *, app: str, transaction: int, note: Mapping[str, Any],
    partition_by: str | None = None, statistics: Sequence[str] = (),
) -> None:  # fmt: skip
    """Append in one commit that carries the transaction; a second append with the same or an older one writes nothing.

    A writer that was overtaken fails at its commit, because the other one's commit carries the same app id (ConcurrentTransaction).
    `statistics`: the columns for which file statistics are kept (those that queries prune by); only at the table's creation.
    """
    writer = (
        rows.write.format("delta")
        .mode("append")
        .option("mergeSchema", "true")  # a column that was added in a newer version of the code joins the table
        .option("txnAppId", app)
        .option("txnVersion", transaction)
        .option("userMetadata", json.dumps(note))
    )
    if partition_by:
        writer = writer.partitionBy(partition_by)
    if statistics and lake_table(settings, table) is None:
        writer = writer.option("delta.dataSkippingStatsColumns", ",".join(statistics))
    _beside_maintenance(settings, table, lambda: writer.save(spark_location(settings, table)))


def replace_batch_rows(settings: Settings, table: TableId, rows: DataFrame, batch_id: str) -> None:
    """Make `rows` the only rows of the table with that `_batch_id`, in one commit, so that a batch can be written again."""
    writer = rows.write.format("delta").option("mergeSchema", "true")
    with _alone(table):
        if _holds_batch(settings, table, batch_id):
            writer.mode("overwrite").option("replaceWhere", f"_batch_id = '{batch_id}'").save(spark_location(settings, table))
        else:  # the rule, and far less work for Spark: nothing has to be looked for
            writer.mode("append").save(spark_location(settings, table))


def clear_batch_rows(spark: SparkSession, settings: Settings, table: TableId, batch_id: str) -> None:
    """Take out what an earlier try of the batch left in a side table for which this try has no rows. No commit when there is nothing."""
    if _holds_batch(settings, table, batch_id):
        replace_batch_rows(settings, table, read_table(spark, settings, table).limit(0), batch_id)


def _holds_batch(settings: Settings, table: TableId, batch_id: str) -> bool:
    """True when an earlier try of the batch has left rows. Asked of file statistics first, so in milliseconds."""
    found = lake_table(settings, table)
    return found is not None and rows_of(found).count_rows(filter=pc.field("_batch_id") == batch_id) > 0


def replace_where(
    settings: Settings, table: TableId, rows: DataFrame, *, where: str, partition_by: str, partitions: Sequence[date], app: str,
    transaction: int, note: Mapping[str, Any],
) -> None:  # fmt: skip
    """Replace the rows for which `where` holds, in one commit that carries the transaction and the note, also when no row changes.

    Those rows must be in `partitions`, which are written anew as one file each. Given a finer predicate, Delta does the same, but only
    after two more queries: one finds the files that hold such rows, the other rewrites them without.
    """
    exists = lake_table(settings, table) is not None
    days = ", ".join(f"date'{day}'" for day in partitions)
    replaced = f"{partition_by} in ({days})" if days else "false"
    if exists:
        kept = read_table(rows.sparkSession, settings, table).where(f"{replaced} and not ({where})")
        rows = rows.unionByName(kept, allowMissingColumns=True).coalesce(1)
    writer = rows.write.format("delta").option("userMetadata", json.dumps(note)).partitionBy(partition_by)
    writer = writer.option("txnAppId", app).option("txnVersion", transaction)
    writer = writer.mode("overwrite").option("replaceWhere", replaced) if exists else writer.mode("append")
    _beside_maintenance(settings, table, lambda: writer.save(spark_location(settings, table)))


def merge_once(
    settings: Settings, table: TableId, changes: DataFrame, *, key: Sequence[str], is_gone: str, app: str, transaction: int,
    note: Mapping[str, Any], partition_by: str,
) -> None:  # fmt: skip
    """Make each row of `changes` the row of its key (where the boolean column `is_gone` holds: take the key's row out), in one commit.

    The commit carries the note and the transaction, also when nothing changes. A MERGE takes both from the session.
    """
    from delta.tables import DeltaTable

    columns = [name for name in changes.columns if name != is_gone]
    spark, values = changes.sparkSession, {name: f"new.`{name}`" for name in columns}
    if lake_table(settings, table) is None:
        rows = changes.where(f"not {is_gone}").select(columns)
        append_once(settings, table, rows, app=app, transaction=transaction, note=note, partition_by=partition_by)
        return
    session = {"commitInfo.userMetadata": json.dumps(note), "write.txnAppId": app, "write.txnVersion": str(transaction)}
    same = " and ".join(f"old.`{name}` = new.`{name}`" for name in key)
    merge = DeltaTable.forPath(spark, spark_location(settings, table)).alias("old").merge(changes.alias("new"), same)
    merge = merge.whenMatchedDelete(f"new.{is_gone}").whenMatchedUpdate(set=values)
    merge = merge.whenNotMatchedInsert(f"not new.{is_gone}", values=values)

    def save() -> None:
        try:
            for name, value in session.items():
                spark.conf.set(f"spark.databricks.delta.{name}", value)
            merge.execute()
        finally:  # or the next write of this session would carry them
            for name in session:
                spark.conf.unset(f"spark.databricks.delta.{name}")

    _beside_maintenance(settings, table, save)


def _beside_maintenance(settings: Settings, table: TableId, save: Callable[[], None]) -> None:
    """Save, and save again when all that came in between were commits of maintenance: they change no row, so the batch is the same.

    Delta refuses a commit whose reading met a file that was joined with others since: silver reads the dates of its batch for what is
    there already. Raises LeaseLost when anything else came in between.
    """
    for meeting in range(MEETINGS):
        found = lake_table(settings, table)
        seen = -1 if found is None else found.version()
        try:
            with _alone(table):
                save()
            return
        except LeaseLost:
            if meeting == MEETINGS - 1 or not _only_maintenance_since(settings, table, seen):
                raise


def _only_maintenance_since(settings: Settings, table: TableId, seen: int) -> bool:
    found = lake_table(settings, table)
    since = [] if found is None else [commit_metadata(settings, table, version) for version in range(seen + 1, found.version() + 1)]
    return bool(since) and all(info.get("operation") in OF_MAINTENANCE for info in since)


@contextmanager
def _alone(table: TableId) -> Iterator[None]:
    """Raises LeaseLost when another writer committed to the table at the same moment: Delta has then refused this commit as a whole."""
    from delta.exceptions import DeltaConcurrentModificationException

    try:
        yield
    except DeltaConcurrentModificationException as conflict:
        raise LeaseLost(
            f"{table} was changed by another writer at the moment of this commit ({type(conflict).__name__}), so this batch was not "
            f"written. If the other one was a run of Assay, it goes on from here; else run again."
        ) from None


def read_table(spark: SparkSession, settings: Settings, table: TableId, version: int | None = None) -> DataFrame:
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(spark_location(settings, table))


def read_stream(spark: SparkSession, settings: Settings, table: TableId, **limits: str) -> DataFrame:
    """The table as a stream from its first commit on, in commit order (a first snapshot would come in file order)."""
    return spark.readStream.format("delta").option("startingVersion", 0).options(**limits).load(spark_location(settings, table))


def last_transaction(settings: Settings, table: TableId, app: str) -> int | None:
    """The newest transaction of `app` in the table; None when there is none."""
    found = lake_table(settings, table)
    return None if found is None else found.transaction_version(app)


def commit_of_batch(settings: Settings, table: TableId, batch_id: str) -> dict[str, Any] | None:
    """The note, version and metrics of the commit that holds a batch; None when no commit file names it."""
    for note in commit_notes(settings, table):
        if note.get("batch_id") == batch_id:
            return note
    return None


def spark_location(settings: Settings, table: TableId) -> str:
    """The table's location as Spark's Hadoop file systems spell it."""
    location = settings.location(table)
    return "s3a" + location[2:] if location.startswith("s3://") else location
