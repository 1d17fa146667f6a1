"""Gold: windowed aggregates, recomputed and never accumulated, so that each equals a batch over silver at the version it names.

The stream on silver is only the clock. Which windows to compute again is read from silver's log: every file added since the version that
the gold table's last commit names. They are replaced in one commit that names the version they were computed from.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from spark_jobs.io.delta_log import latest_version
from spark_jobs.io.delta_tables import commit_of_batch, read_stream, replace_where
from spark_jobs.io.lake import bytes_of_days
from spark_jobs.io.lease import Leases
from spark_jobs.io.work import check_gold_in_force, gold_checkpoint, is_gold_stranded, named_silver_version
from spark_jobs.jobs.amendments import record_amendments
from spark_jobs.jobs.first_seen import merge_first_seen
from spark_jobs.jobs.gold_batch import LIVE, GoldBatch, complete_books, counted_by_commit
from spark_jobs.jobs.gold_standing import gold_fault
from spark_jobs.jobs.publishing import write_books
from spark_jobs.jobs.query import LayerQuery
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.jobs.touched_windows import (
    Touched,
    bucket_counts,
    buckets_of_dates,
    changed_dates,
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
from spark_jobs.spec.tables import TableId
from spark_jobs.spec.windows import merged, ranges

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
        if (fault := gold_fault(run, table)) is not None:
            raise fault
    checkpoint.record_engine()
    if is_gold_stranded(run.settings, run.pipeline):  # the stream has nothing to say, so nothing would bring the table up
        # No dot in the name: what stands after one is what a person decided about the batch.
        build_batch(run, leases, f"{checkpoint.newest_batch_id()}-again", hourly)
    # A replay changes rows of silver in place: for a clock that is one tick more, and the windows are read from the log in any case.
    events = read_stream(run.spark, run.settings, run.pipeline.silver_table, ignoreChanges="true")

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


def recompute(run: Run, leases: Leases, dates: Sequence[date], mark: str) -> None:
    """Compute every window of every gold table that covers these days (UTC) again, whatever the tables name; and what is new in silver.

    `mark` names the batch in each table: a second call with it only completes what the first has left out. The caller holds the leases of
    all gold tables (`pipeline.gold_tables`). Raises GateStopped, BooksUnbalanced, CheckpointDamaged, LeaseLost.
    """
    pipeline, settings = run.pipeline, run.settings
    version = latest_version(settings, pipeline.silver_table)
    if not re.fullmatch(r"[A-Za-z0-9_-]+", mark):
        raise ValueError(f"'{mark}' cannot name a batch: letters, digits, - and _ only")
    if version is None:
        return
    batch = GoldBatch(run, leases, mark, version, run.clock(), mark)
    touched = []
    for spec in pipeline.gold:
        named = _named_in_force(run, pipeline.gold_table(spec))
        if not _is_done(batch, pipeline.gold_table(spec)):
            buckets = {*buckets_of_dates(dates), *touched_buckets(run, -1 if named is None else named, version)}
            touched.append(Touched(spec, tuple(spec.window.touched(buckets)), named))
    _replace_all(batch, touched)
    if pipeline.first_seen is not None:
        table = pipeline.gold_table(pipeline.first_seen)
        named = _named_in_force(run, table)
        if not _is_done(batch, table):
            merge_first_seen(batch, pipeline.first_seen, named, dates)


def _named_in_force(run: Run, table: TableId) -> int | None:
    check_gold_in_force(run.settings, run.pipeline, table)
    return named_silver_version(run.settings, run.pipeline, table)


def _is_done(batch: GoldBatch, table: TableId) -> bool:
    """True when the table holds the batch already; its books are completed."""
    done = commit_of_batch(batch.run.settings, table, batch.batch_id)
    if done is not None:
        write_books(batch.run, "gold", table, counted_by_commit(done))
    return done is not None


def _replace_all(batch: GoldBatch, touched: Sequence[Touched]) -> None:
    """The touched windows of each table, computed from one reading of silver."""
    if not touched:
        return
    run = batch.run
    transforms = importlib.import_module(f"spark_jobs.pipelines.{run.pipeline.name}.gold")
    spans = merged(span for one in touched for span in one.spans)
    if run.pace:
        run.pace.fit(bytes_of_days(run.settings, run.pipeline.silver_table, run.pipeline.silver.date, dates_of(spans)))
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
        is_judged = touched.starts and (facts["source_rows"] or not _may_be_empty(batch, touched))
        note = batch.pass_gate(table, windows if is_judged else None, books, facts)
        if not books.is_balanced:
            raise BooksUnbalanced(
                f"{table}: silver version {batch.version} has {expected} events in the touched windows, gold counts {books.written}."
            )
        batch.leases.check()
        record_amendments(batch, touched, windows)
        app, transaction = batch.transaction(table, touched.since)
        batch.leases.check()
        replace_where(
            run.settings, table, windows, where=replaced_windows(touched), partition_by="window_date", partitions=dates_of(replaced),
            app=app, transaction=transaction, note=note,
        )  # fmt: skip
        batch.finish(table, note, f"{len(touched.starts)} windows at silver version {batch.version}; {books.equation()}")
    finally:
        windows.unpersist()


def _may_be_empty(batch: GoldBatch, touched: Touched) -> bool:
    """True when windows without any event are right: days were asked for, or a replay took events out of silver."""
    was_asked = batch.brought_by != LIVE
    return was_asked or (touched.since is not None and bool(changed_dates(batch.run, touched.since, batch.version)))


def _work(run: Run, options: object) -> dict[str, Any]:
    """Compute the touched windows of every gold table again, through gold's gates."""
    from spark_jobs.jobs.run_layers import run_layers

    return run_layers(run, ("gold",))


if __name__ == "__main__":
    leave(run_job("build_gold", _work))
