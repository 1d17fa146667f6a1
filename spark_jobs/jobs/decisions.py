"""Carrying out what a person decided about held batches: release publishes the held rows once, reject sends them to quarantine.

Done by the layer's own job under its lease, before it takes new batches, so that a release never writes beside the pipeline.
(A decision on a stopped batch is carried out where the batch is judged again: see `publishing.publish`.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from spark_jobs.io.delta_tables import append_once, commit_of_batch, last_transaction, read_table, replace_batch_rows
from spark_jobs.io.lake import lake_table
from spark_jobs.io.work import undone_decisions
from spark_jobs.jobs.publishing import Writer, write_books
from spark_jobs.spec.books import Books
from spark_jobs.spec.tables import TableId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# For silver: which of the rows are first arrivals, and the duplicates among them. (None: all of them are.)
Deduplicate = Callable[["DataFrame", str], tuple["DataFrame", "DataFrame", int]]


def carry_out_decisions(
    writer: Writer,
    to_quarantine: Callable[[DataFrame, str], DataFrame],
    deduplicate: Deduplicate | None = None,
    partition_by: str = "_ingest_date",
) -> None:
    """Every decision on a held batch of the writer's table that was not carried out yet, oldest first."""
    held = writer.table.side("held")
    if lake_table(writer.run.settings, held) is None:
        return
    for decision in undone_decisions(writer.run.settings, writer.run.pipeline):
        if decision["table"] == str(writer.table):
            _carry_out(writer, held, decision, to_quarantine, deduplicate, partition_by)


def _carry_out(
    writer: Writer, held: TableId, decision: Mapping[str, str], to_quarantine: Callable[[DataFrame, str], DataFrame],
    deduplicate: Deduplicate | None, partition_by: str,
) -> None:  # fmt: skip
    run, batch_id = writer.run, decision["batch_id"]
    released = decision["decision"] == "release"
    mark = f"{batch_id}.{decision['decision']}"
    app = f"{writer.app}/{mark}"
    is_new = last_transaction(run.settings, writer.table, app) is None
    if is_new and commit_of_batch(run.settings, writer.table, mark) is None:  # or done under an older generation of the checkpoint
        rows = read_table(run.spark, run.settings, held).where(f"_batch_id = '{batch_id}'").drop("verdict_id").persist()
        read = rows.count()
        if read == 0:  # not a held batch: a stopped one, judged again when its turn comes
            rows.unpersist()
            return
        kept, duplicates = rows, 0
        if not released:
            reason = f"rejected by {decision['who']}: {decision['note'] or 'no note'}"
            rejected = to_quarantine(rows, reason)
            kept = rows.limit(0)
            from pyspark.sql import functions as F

            replace_batch_rows(run.settings, writer.table.side("quarantine"), rejected.withColumn("_batch_id", F.lit(mark)), mark)
        elif deduplicate is not None:
            kept, repeated, duplicates = deduplicate(rows, mark)
            if duplicates:
                replace_batch_rows(run.settings, writer.table.side("duplicates"), repeated, mark)
        written = kept.count() if released else 0
        books = Books(read=read, written=written, quarantined=0 if released else rows.count(), duplicate=duplicates)
        note = {
            "batch_id": mark, "run_id": run.run_id, "epoch": writer.leases.epoch(writer.table), "outcome": "hold",
            "decision": decision["decision"], "source_version": None, "books": books.terms(), "started_at": run.clock().isoformat(),
        }  # fmt: skip
        writer.leases.check()
        append_once(run.settings, writer.table, kept, app=app, transaction=1, note=note, partition_by=partition_by)
        rows.unpersist()
        run.say(
            f"{writer.table}: held batch {batch_id} was {'released' if released else 'rejected'} by {decision['who']}: {books.equation()}"
        )
    replace_batch_rows(run.settings, held, read_table(run.spark, run.settings, held).limit(0), batch_id)
    committed = commit_of_batch(run.settings, writer.table, mark)
    if committed is not None:
        write_books(run, writer.layer, writer.table, committed, mark)
