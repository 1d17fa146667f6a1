"""Gold: windowed aggregates, recomputed and never accumulated, so that each equals a batch over silver at the version it names.

The stream on silver is only the clock. Which windows to compute again is read from silver's log: every file added since the version that
the gold table's last commit names. They are replaced in one commit that names the version they were computed from.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spark_jobs.io.delta_log import latest_version
from spark_jobs.io.delta_tables import read_stream, replace_where
from spark_jobs.io.lease import Leases
from spark_jobs.io.work import check_gold_in_force, gold_checkpoint, is_gold_stranded, named_silver_version, silver_app
from spark_jobs.jobs.gold_batch import GoldBatch, complete_books
from spark_jobs.jobs.query import LayerQuery
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.jobs.touched_windows import (
    Touched,
    bucket_counts,
    dates_of,
    events_of_spans,
    replaced_windows,
    starts_within,
    touched_buckets,
    within_spans,
)
from spark_jobs.spec.books import Books
from spark_jobs.spec.errors import BooksUnbalanced
from spark_jobs.spec.pipeline import GoldSpec
from spark_jobs.spec.windows import ranges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def build_gold(run: Run) -> None:
    """All hourly gold tables up to silver's latest version. Raises GateStopped, LeaseHeld, CheckpointDamaged, BooksUnbalanced."""
    with Leases(run.settings, run.pipeline.gold_tables_of("hourly"), run.run_id) as leases:
        start_gold(run, leases).wait()


def start_gold(run: Run, leases: Leases) -> LayerQuery:
    checkpoint = gold_checkpoint(run.settings, run.pipeline)
    checkpoint.open()
    hourly = run.pipeline.gold_of("hourly")
    for table in run.pipeline.gold_tables_of("hourly"):
        check_gold_in_force(run.settings, run.pipeline, table)
    if is_gold_stranded(run.settings, run.pipeline):  # the stream has nothing to say, so nothing would bring the table up
        build_batch(run, leases, f"{checkpoint.newest_batch_id()}.again", hourly)
    events = read_stream(run.spark, run.settings, run.pipeline.silver_table)

    def clocked(_: DataFrame, number: int) -> None:
        build_batch(run, leases, checkpoint.batch_id(number), hourly)

    return LayerQuery(run, run.pipeline.gold_stream, events, clocked, checkpoint)


def build_batch(run: Run, leases: Leases, batch_id: str, specs: Sequence[GoldSpec]) -> None:
    """Bring these gold tables from the silver version that each names to silver's latest one."""
    version = latest_version(run.settings, run.pipeline.silver_table)
    if version is None:
        return
    buckets: dict[int, list[int]] = {}  # the touched instants since a version; the gold tables usually name the same one
    touched = []
    for spec in specs:
        named = named_silver_version(run.settings, run.pipeline, run.pipeline.gold_table(spec))
        if named == version:
            complete_books(run, run.pipeline.gold_table(spec))
            continue
        since = -1 if named is None else named
        if since not in buckets:
            buckets[since] = touched_buckets(run, since, version)
        touched.append(Touched(spec, tuple(spec.window.touched(buckets[since])), named))
    _replace_all(GoldBatch(run, leases, batch_id, version, run.clock()), touched)


def _replace_all(batch: GoldBatch, touched: Sequence[Touched]) -> None:
    """The touched windows of each table, computed from one reading of silver."""
    if not touched:
        return
    run = batch.run
    transforms = importlib.import_module(f"spark_jobs.pipelines.{run.pipeline.name}.gold")
    spans = ranges([start for one in touched for start in one.starts], max(one.spec.window.length_s for one in touched))
    events = events_of_spans(run, batch.version, spans).select(*transforms.COLUMNS).persist()
    try:
        counts = bucket_counts(run, events, [one.spec for one in touched])
        for one in touched:
            _replace_windows(batch, one, events, counts, transforms.TABLES[one.spec.subject])
    finally:
        events.unpersist()


def _replace_windows(batch: GoldBatch, touched: Touched, events: DataFrame, counts: dict[str, dict[int, int]], transform: Any) -> None:
    from pyspark.sql import functions as F

    run, spec, table = batch.run, touched.spec, batch.run.pipeline.gold_table(touched.spec)
    replaced = ranges(touched.starts, spec.window.slide_s)
    # Windows at the edge of what was read are incomplete, unless they were touched themselves.
    windows = transform(events.where(within_spans(run, touched.spans))).where(starts_within(replaced)).coalesce(1).persist()
    try:
        expected = spec.window.expected_sum(touched.starts, counts[spec.of])
        summed = windows.agg(F.sum(spec.counts)).first()
        books = Books(read=expected, written=int((summed and summed[0]) or 0))
        facts = {"spec": spec, "expected_sum": expected, "source_rows": spec.window.expected_sum(touched.starts, counts["true"])}
        note = batch.pass_gate(table, windows if touched.starts else None, books, facts)
        if not books.is_balanced:
            raise BooksUnbalanced(
                f"{table}: silver version {batch.version} has {expected} events in the touched windows, gold counts {books.written}."
            )
        batch.leases.check()
        replace_where(
            run.settings, table, windows, where=replaced_windows(touched), partition_by="window_date", partitions=dates_of(replaced),
            app=silver_app(run.settings, run.pipeline), transaction=batch.version, note=note,
        )  # fmt: skip
        batch.finish(table, note, f"{len(touched.starts)} windows at silver version {batch.version}; {books.equation()}")
    finally:
        windows.unpersist()


def _work(run: Run, options: object) -> dict[str, Any]:
    """Compute the touched windows of every gold table again, through gold's gates."""
    from spark_jobs.jobs.run_layers import run_layers

    return run_layers(run, ("gold",))


if __name__ == "__main__":
    leave(run_job("build_gold", _work))
