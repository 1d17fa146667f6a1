"""Each event once: which rows are the first arrivals of their key, and which are re-deliveries. The one place where this is decided."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from spark_jobs.io.delta_tables import read_table
from spark_jobs.io.lake import lake_table
from spark_jobs.jobs.run import Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Deduplicated:
    """`first`: the rows whose key is new, one per key. `repeated`: rows of the duplicates table. `count`: how many those are."""

    first: DataFrame
    repeated: DataFrame
    count: int
    conflicting: int


def deduplicate(run: Run, events: DataFrame, dates: list[date], batch_id: str, leaving: DataFrame | None = None) -> Deduplicated:
    """Which events of the batch are first arrivals of their key, within the batch and against the table.

    A key that is in the table with the same `_rid` is the record itself (a batch run again), not a re-delivery. Works on the narrow key
    columns; the wide rows are touched only when there are re-deliveries at all, by a small list of `_rid`s. `leaving`: the `_rid`s of rows
    that this batch takes out of the table, so that they stand in nobody's way.
    """
    from pyspark.sql import functions as F

    key, date_column = run.pipeline.silver.key, run.pipeline.silver.date
    table = run.pipeline.silver_table
    narrow = events.select(
        key, date_column, "_rid", "_content_hash", "_ingested_at", "_source_file", "_record_index", F.lit(True).alias("is_new")
    )
    seen = narrow
    if lake_table(run.settings, table) is not None and dates:
        # The batch's keys are bounded and go to every task; what comes back is only the keys that both have.
        known = (
            read_table(run.spark, run.settings, table)
            .where(F.col(date_column).isin(dates))
            .select(
                key, date_column, "_rid", "_content_hash", "_ingested_at", "_source_file", "_record_index", F.lit(False).alias("is_new")
            )
            .join(F.broadcast(narrow.select(key, date_column)), on=[key, date_column], how="left_semi")
        )
        if leaving is not None:
            known = known.join(F.broadcast(leaving.select("_rid")), on="_rid", how="left_anti")
        seen = narrow.unionByName(known)
    arrival = F.struct(
        "is_new", "_ingested_at", "_source_file", "_record_index", "_rid", "_content_hash"
    )  # false sorts first: what the table has stays
    groups = (
        seen.groupBy(key, date_column)
        .agg(F.min(arrival).alias("kept"), F.collect_list(arrival).alias("arrivals"))
        .where(F.size("arrivals") > 1)
        .select(
            key,
            date_column,
            F.col("kept._rid").alias("kept_rid"),
            F.col("kept._content_hash").alias("kept_hash"),
            F.explode("arrivals").alias("a"),
        )
        .where("a.is_new and a._rid != kept_rid")
    )
    repeated = groups.select(
        F.col("a._rid").alias("_rid"),
        "kept_rid",
        key,
        date_column,
        (F.col("a._content_hash") != F.col("kept_hash")).alias("is_conflicting"),
        F.col("a._source_file").alias("_source_file"),
        F.col("a._record_index").alias("_record_index"),
        F.col("a._ingested_at").alias("_ingested_at"),
        F.lit(batch_id).alias("_batch_id"),
    ).persist()
    counted = repeated.agg(F.count("*").alias("all"), F.count_if("is_conflicting").alias("conflicting")).first()
    count, conflicting = (counted["all"], counted["conflicting"]) if counted else (0, 0)
    if not count:
        return Deduplicated(events, repeated, 0, 0)
    return Deduplicated(events.join(F.broadcast(repeated.select("_rid")), on="_rid", how="left_anti"), repeated, count, conflicting)
