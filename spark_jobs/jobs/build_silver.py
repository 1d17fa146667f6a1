"""Silver: each event typed and once, forever.

The first arrival is kept, every re-delivery is recorded, what breaks the contract is quarantined.

Reads `bronze.<pipeline>_records` as a stream; writes `silver.<pipeline>_<entity>` and its quarantine and duplicates.
"""

from __future__ import annotations

import importlib
from datetime import date
from typing import TYPE_CHECKING, Any

from spark_jobs.io.delta_log import added_files
from spark_jobs.io.delta_tables import last_transaction, read_stream
from spark_jobs.io.lease import Leases
from spark_jobs.io.work import silver_checkpoint
from spark_jobs.jobs.decisions import carry_out_decisions
from spark_jobs.jobs.first_arrivals import deduplicate
from spark_jobs.jobs.publishing import Batch, Writer, complete_if_committed, publish
from spark_jobs.jobs.query import LayerQuery
from spark_jobs.jobs.replay_commit import finish_open_replay
from spark_jobs.jobs.replay_quarantine import readmit_due
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.jobs.taking_over import not_taken_yet, tidy_up
from spark_jobs.spec.books import Books

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LARGE_MB_PER_BATCH = 64  # of bronze Parquet; about ten times as much JSON


def build_silver(run: Run) -> None:
    """Everything bronze has and silver has not read. Raises GateStopped, LeaseHeld, CheckpointDamaged, BooksUnbalanced."""
    with Leases(run.settings, [run.pipeline.silver_table], run.run_id) as leases:
        start_silver(run, leases).wait()


def silver_writer(run: Run, leases: Leases) -> Writer:
    """The right to write silver, once its checkpoint was found whole and what a killed replay left was tidied up."""
    table, checkpoint = run.pipeline.silver_table, silver_checkpoint(run.settings, run.pipeline)
    writer = Writer(run, "silver", table, leases, checkpoint, checkpoint.open())
    checkpoint.check_against(last_transaction(run.settings, table, writer.app))
    checkpoint.record_engine()
    tidy_up(writer)
    finish_open_replay(writer)
    return writer


def start_silver(run: Run, leases: Leases) -> LayerQuery:
    table, writer = run.pipeline.silver_table, silver_writer(run, leases)

    def again(rows: DataFrame, mark: str) -> tuple[DataFrame, DataFrame, int]:
        found = deduplicate(run, rows, _dates(run, rows), mark)
        return found.first, found.repeated, found.count

    carry_out_decisions(writer, _rejected_rows, again, run.pipeline.silver.date)
    readmit_due(writer)
    limit = run.batch_limit.get(str(table), LARGE_MB_PER_BATCH * 1_000_000)
    raw_records = read_stream(run.spark, run.settings, run.pipeline.bronze_table, maxBytesPerTrigger=str(limit))
    return LayerQuery(run, table, raw_records, lambda batch, number: build_batch(writer, batch, number), writer.checkpoint)


def build_batch(writer: Writer, raw_records: DataFrame, number: int) -> None:
    """Parse once, split by the contract, find first arrivals, audit, publish."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    run, batch_id, started_at = writer.run, writer.checkpoint.batch_id(number), writer.run.clock()
    if complete_if_committed(writer, number):
        return
    if run.pace:
        up_to = writer.checkpoint.source_version(number)
        read = added_files(run.settings, run.pipeline.bronze_table, writer.checkpoint.position(), up_to)
        run.pace.fit(sum(file.size for file in read), raw_records)
    parse = importlib.import_module(f"spark_jobs.pipelines.{run.pipeline.name}.silver").parse_events
    raw_records = not_taken_yet(writer, raw_records, number)
    parsed = parse(raw_records).withColumn("_batch_id", F.lit(batch_id)).persist(StorageLevel.MEMORY_AND_DISK)
    found = None
    try:
        date_column = run.pipeline.silver.date
        groups = parsed.groupBy(F.when(F.col("_rule").isNull(), F.col(date_column)).alias(date_column), "_rule").count().collect()
        broken = {row["_rule"]: row["count"] for row in groups if row["_rule"]}
        quarantined = sum(broken.values())
        good = parsed.where("_rule is null").drop("_rule", "_reason", "raw", "_due_at")
        found = deduplicate(run, good, [row[date_column] for row in groups if not row["_rule"]], batch_id)
        books = Books(
            read=sum(row["count"] for row in groups),
            written=found.first.count() if found.count else sum(row["count"] for row in groups if not row["_rule"]),
            quarantined=quarantined,
            duplicate=found.count,
        )
        sides = {}
        if quarantined:
            run.say(f"{writer.table} {batch_id}: quarantined: {', '.join(f'{broken[rule]} {rule}' for rule in sorted(broken))}.")
            sides[writer.table.side("quarantine")] = parsed.where("_rule is not null").select(
                "_rid",
                F.col("_rule").alias("rule"),
                F.col("_reason").alias("reason"),
                "raw",
                F.col("_due_at").alias("due_at"),
                "_source_file",
                "_record_index",
                "_file_sha256",
                "_ingested_at",
                "_batch_id",
            )
        if found.count:
            sides[writer.table.side("duplicates")] = found.repeated
        bronze_rows = raw_records.count() if run.settings.gates else books.read
        facts = {"bronze_rows": bronze_rows, "conflicting": found.conflicting, "clock_ahead": run.pipeline.clock_ahead}
        rows = found.first.coalesce(1) if run.small else found.first
        publish(
            writer,
            Batch(
                number, batch_id, rows, books, started_at, sides, facts, date_column,
                (run.pipeline.silver.time, run.pipeline.silver.key, "_rid"), writer.checkpoint.source_version(number),
                is_empty=bronze_rows == books.read == 0,
            ),
            _rejected_rows,
        )  # fmt: skip
    finally:
        if found is not None:
            found.repeated.unpersist()
        parsed.unpersist()


def _dates(run: Run, rows: DataFrame) -> list[date]:
    return [row[0] for row in rows.select(run.pipeline.silver.date).distinct().collect()]


def _rejected_rows(rows: DataFrame, reason: str) -> DataFrame:
    """Silver rows as rows of the silver quarantine, for a batch that a person rejected. The raw text is bronze's, found by `_rid`."""
    from pyspark.sql import functions as F

    return rows.select(
        "_rid",
        F.lit("rejected").alias("rule"),
        F.lit(reason).alias("reason"),
        F.lit(None).cast("string").alias("raw"),
        F.lit(None).cast("timestamp").alias("due_at"),
        "_source_file",
        "_record_index",
        "_file_sha256",
        "_ingested_at",
        "_batch_id",
    )


def _work(run: Run, options: object) -> dict[str, Any]:
    """Parse, deduplicate and publish what bronze has brought, through silver's gate."""
    from spark_jobs.jobs.run_layers import run_layers

    return run_layers(run, ("silver",))


if __name__ == "__main__":
    leave(run_job("build_silver", _work))
