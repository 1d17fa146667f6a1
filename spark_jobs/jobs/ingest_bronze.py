"""Bronze: every record of every listed file, as its exact text, with where it came from.

Reads `_ops.files` as a stream; writes `bronze.<pipeline>_records` (one row per record), its quarantine (pieces of a file that are no
record's text), and `_ops.file_outcomes` (one row per reading of a file).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from spark_jobs.io.delta_tables import last_transaction, read_stream
from spark_jobs.io.landed_file import LandedFile
from spark_jobs.io.lease import Leases
from spark_jobs.io.taken import FilesRead
from spark_jobs.io.work import PendingFiles, bronze_checkpoint, pending_files
from spark_jobs.jobs.decisions import carry_out_decisions
from spark_jobs.jobs.pace import CHUNKS_PER_BATCH
from spark_jobs.jobs.publishing import Batch, Writer, complete_if_committed, publish
from spark_jobs.jobs.query import LayerQuery
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.jobs.taking_over import may_have_been_taken, tidy_up
from spark_jobs.spec.books import Books
from spark_jobs.spec.tables import FILE_OUTCOMES, FILES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

BYTES_PER_TASK = 1_000_000  # landed; about 10 MB inflated: a task well above its own start-up cost
MOST_TASKS_PER_CORE = 4


def ingest_bronze(run: Run) -> None:
    """Everything the ledger lists and bronze has not read. Raises GateStopped, LeaseHeld, CheckpointDamaged, BooksUnbalanced."""
    with Leases(run.settings, [run.pipeline.bronze_table], run.run_id) as leases:
        start_bronze(run, leases).wait()


def start_bronze(run: Run, leases: Leases) -> LayerQuery:
    table = run.pipeline.bronze_table
    checkpoint = bronze_checkpoint(run.settings, run.pipeline)
    writer = Writer(run, "bronze", table, leases, checkpoint, checkpoint.open())
    checkpoint.check_against(last_transaction(run.settings, table, writer.app))
    checkpoint.record_engine()
    tidy_up(writer)
    carry_out_decisions(writer, quarantined_rows)
    run.ledger_files = ledger_files_per_batch(run, pending_files(run.settings, run.pipeline))
    listed = read_stream(run.spark, run.settings, FILES, maxFilesPerTrigger=str(run.ledger_files))
    mine = listed.where(f"pipeline = '{run.pipeline.name}' and state = 'listed'")
    return LayerQuery(run, table, mine, lambda batch, number: ingest_batch(writer, batch, number), checkpoint)


def ingest_batch(writer: Writer, batch: DataFrame, number: int) -> None:
    """Read the listed files once, audit what was read, publish it."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    run, batch_id, started_at = writer.run, writer.checkpoint.batch_id(number), writer.run.clock()
    if complete_if_committed(writer, number):
        return
    rows = batch.select("path", "size", "version", "file_id", "attempt", "listed_at", "chunk").collect()
    listed = [LandedFile(row.path, row.size, row.version, row.file_id, row.attempt, row.listed_at) for row in rows]
    entries = _not_read_yet(writer, listed, number)
    if len(entries) < len(listed):
        run.say(f"{writer.table} {batch_id}: {len(listed) - len(entries)} files asked for again have been read already.")
    if run.pace:
        is_full = len({row.chunk for row in rows}) >= run.ledger_files
        run.pace.fit(sum(entry.size for entry in entries), batch, is_full=is_full)
    pieces = read_files(run, entries).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        raw = pieces.where("kind = 'record'").select(
            F.concat_ws(":", "file_id", "record_index").alias("_rid"),
            F.col("file_id").alias("_file_id"),
            F.col("path").alias("_source_file"),
            F.col("record_index").alias("_record_index"),
            F.col("sha256").alias("_file_sha256"),
            F.col("listed_at").alias("_listed_at"),
            F.lit(started_at).alias("_ingested_at"),
            F.lit(started_at.date()).alias("_ingest_date"),
            F.lit(batch_id).alias("_batch_id"),
            "raw",
        )
        outcomes = [row.asDict() for row in pieces.where("kind = 'outcome'").drop("kind", "raw", "raw_bytes", "listed_at").collect()]
        quarantined = pieces.where("kind = 'quarantined'")
        ok = [row for row in outcomes if row["rule"] is None]
        books = Books(
            read=sum(row["records"] for row in ok),
            written=raw.count(),
            quarantined=quarantined.count() if any(row["quarantined"] for row in ok) else 0,
            files_read=len(entries),
            files_ok=len(ok),
            files_failed=sum(row["rule"] is not None for row in outcomes),
        )
        sides = {}
        if books.quarantined:
            sides[writer.table.side("quarantine")] = quarantined.select(
                F.concat_ws(":", "file_id", "record_index").alias("_rid"),
                "rule",
                "reason",
                "raw_bytes",
                F.col("file_id").alias("_file_id"),
                F.col("path").alias("_source_file"),
                F.col("record_index").alias("_record_index"),
                F.col("sha256").alias("_file_sha256"),
                F.lit(started_at).alias("_ingested_at"),
                F.lit(batch_id).alias("_batch_id"),
            )
        run.ops.replace_batch(FILE_OUTCOMES, of=FILES, batch_id=batch_id, rows=[_outcome(run, row, batch_id) for row in outcomes])
        for row in outcomes:
            if row["rule"] is not None or row["notes"]:
                run.say(f"{row['path']}: {row['reason'] or row['notes']}")
        facts = {
            "files_read": len(entries),
            "outcomes": len(outcomes),
            "files": {row["file_id"]: {"records": row["records"], "quarantined": row["quarantined"]} for row in ok},
        }
        publish(
            writer,
            Batch(
                number, batch_id, raw, books, started_at, sides, facts, "_ingest_date",
                ("_rid", "_file_id", "_record_index", "_ingested_at"), writer.checkpoint.source_version(number),
                is_empty=not entries,
            ),
            quarantined_rows,
        )  # fmt: skip
    finally:
        pieces.unpersist()


def _not_read_yet(writer: Writer, listed: Sequence[LandedFile], number: int) -> list[LandedFile]:
    """Each version of a file once, and only if no other batch has read it: its records would be in bronze twice, under one `_rid`."""
    run, batch_id = writer.run, writer.checkpoint.batch_id(number)
    newest = {entry.file_id: entry for entry in sorted(listed, key=lambda entry: entry.attempt)}
    if may_have_been_taken(writer, number):
        read_before = FilesRead(run.ops, run.pipeline, newest, lambda name: name == batch_id)
        return [entry for entry in newest.values() if not read_before.has(entry.file_id, entry.attempt)]
    again = [entry.file_id for entry in newest.values() if entry.attempt > 1]
    if again:
        elsewhere = (pc.field("outcome") == "ok") & (pc.field("batch_id") != batch_id) & pc.field("file_id").isin(again)
        read = run.ops.read(FILE_OUTCOMES, ["file_id"], (pc.field("pipeline") == run.pipeline.name) & elsewhere)
        for name in read["file_id"].to_pylist():
            newest.pop(name, None)
    return list(newest.values())


def read_files(run: Run, entries: Sequence[LandedFile]) -> DataFrame:
    """The pieces of the files (see `READ_COLUMNS`), read by Python workers: largest files first, spread over the tasks by size."""
    from spark_jobs.io.read_landed_file import read_landed_file
    from spark_jobs.io.reading_batches import READ_COLUMNS, to_arrow_batches

    cores = run.spark.sparkContext.defaultParallelism
    total = sum(entry.size for entry in entries)
    tasks = max(1, min(len(entries), cores * MOST_TASKS_PER_CORE, -(-total // BYTES_PER_TASK)))
    shares = _shares(entries, tasks)
    records_key, bound = run.pipeline.landing.records_key, run.settings.max_inflated_mb * 1_000_000

    def read_shares(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers:
            for share in number.column(0).to_pylist():
                yield from to_arrow_batches(
                    read_landed_file(entry, records_key=records_key, max_inflated_bytes=bound) for entry in shares[share]
                )

    return run.spark.range(0, tasks, 1, tasks).mapInArrow(read_shares, READ_COLUMNS)


def quarantined_rows(rows: DataFrame, reason: str) -> DataFrame:
    """Bronze rows as rows of the bronze quarantine, for a batch that a person rejected."""
    from pyspark.sql import functions as F

    return rows.select(
        "_rid",
        F.lit("rejected").alias("rule"),
        F.lit(reason).alias("reason"),
        F.encode("raw", "utf-8").alias("raw_bytes"),
        "_file_id",
        "_source_file",
        "_record_index",
        "_file_sha256",
        "_ingested_at",
        "_batch_id",
    )


def _shares(entries: Sequence[LandedFile], tasks: int) -> list[list[LandedFile]]:
    shares: list[list[LandedFile]] = [[] for _ in range(tasks)]
    sizes = [0] * tasks
    for entry in sorted(entries, key=lambda entry: entry.size, reverse=True):
        least = sizes.index(min(sizes))
        shares[least].append(entry)
        sizes[least] += entry.size + 1
    return shares


def ledger_files_per_batch(run: Run, pending: PendingFiles) -> int:
    """Small ledger files (one per hourly look) are taken together, up to the bounds of a batch.

    A continuous query keeps its bound for what is still to land: with little pending it takes as few as its own looks are cut for.
    """
    if run.pace and pending.chunks <= 2 * CHUNKS_PER_BATCH:
        return CHUNKS_PER_BATCH
    limit = run.batch_limit.get(str(run.pipeline.bronze_table), run.settings.batch_mb * 1_000_000)
    by_files = run.settings.batch_files // max(1, pending.largest_chunk_files)
    by_bytes = limit // max(1, pending.largest_chunk_bytes)
    return max(1, min(by_files, by_bytes, 1000))


def _outcome(run: Run, row: dict[str, Any], batch_id: str) -> dict[str, Any]:
    kept = ("file_id", "path", "attempt", "rule", "reason", "heals", "sha256", "bytes", "inflated_bytes", "records", "quarantined", "notes")
    return {name: row[name] for name in kept} | {
        "pipeline": run.pipeline.name,
        "outcome": "ok" if row["rule"] is None else "failed",
        "batch_id": batch_id,
        "run_id": run.run_id,
        "read_at": run.clock(),
    }


def _work(run: Run, options: object) -> dict[str, Any]:
    """Read every listed file into bronze, through its gate."""
    from spark_jobs.jobs.run_layers import run_layers

    return run_layers(run, ("bronze",))


if __name__ == "__main__":
    leave(run_job("ingest_bronze", _work))
