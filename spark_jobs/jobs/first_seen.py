"""First seen: for each kind and value the first event that has it, kept by a MERGE of minima.

The minimum of minima is the minimum of all, so the table is the same whatever order history arrives in: what comes in later moves a
value's first event earlier, or changes nothing. Only rows added to silver since the version that the table names are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import date
from typing import TYPE_CHECKING

from spark_jobs.io.delta_log import latest_version
from spark_jobs.io.delta_tables import merge_once, read_table
from spark_jobs.io.lake import lake_table
from spark_jobs.io.lease import Leases
from spark_jobs.io.work import named_silver_version
from spark_jobs.jobs.gold_batch import GoldBatch, complete_books
from spark_jobs.jobs.run import Run
from spark_jobs.jobs.touched_windows import added_events, changed_dates, events_at
from spark_jobs.spec.books import Books
from spark_jobs.spec.errors import BooksUnbalanced
from spark_jobs.spec.pipeline import FirstSeenSpec
from spark_jobs.transforms.first_seen import first_of_each

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def build_first_seen(run: Run, leases: Leases, batch_id: str, spec: FirstSeenSpec) -> None:
    """Bring the table from the silver version it names to silver's latest one. Raises GateStopped, BooksUnbalanced, LeaseLost."""
    version, table = latest_version(run.settings, run.pipeline.silver_table), run.pipeline.gold_table(spec)
    if version is None:
        return
    named = named_silver_version(run.settings, run.pipeline, table)
    if named == version:
        complete_books(run, table)
        return
    merge_first_seen(GoldBatch(run, leases, batch_id, version, run.clock()), spec, named)


def merge_first_seen(batch: GoldBatch, spec: FirstSeenSpec, named: int | None, dates: Sequence[date] = ()) -> None:
    """Merge the first events of what silver has added since version `named`, and of all that it has on `dates`.

    A value that is shown with an event of those dates which silver has no more gets the first of all its events, or goes. Dates on which
    silver's rows were changed in place (by a replay) are looked at in any case.
    """
    from pyspark.sql import functions as F

    dates = sorted({*dates, *(changed_dates(batch.run, named, batch.version) if named is not None else ())})
    run, table, key = batch.run, batch.run.pipeline.gold_table(spec), batch.run.pipeline.silver.key
    with ExitStack() as cached:

        def keep(rows: DataFrame) -> DataFrame:
            cached.callback(rows.persist().unpersist)
            return rows

        offered = keep(_offered(batch, spec, named, dates))
        exists = lake_table(run.settings, table) is not None
        known = read_table(run.spark, run.settings, table) if exists else offered.limit(0)
        known = known.select(*spec.grain, F.struct("first_event_at", key).alias("known"))
        told = keep(offered.join(known, on=list(spec.grain), how="left").withColumn("offer", F.struct("first_event_at", key)))
        changes = told.where("known is null or offer < known").select(*offered.columns, F.lit(False).alias("is_gone"))
        corrected = keep(_corrected(batch, spec, offered, known, dates)) if dates and exists else None
        if corrected is not None:
            changes = changes.unionByName(corrected)
        changes = keep(changes.coalesce(1))
        gone = changes.where("is_gone").count()
        books = Books(
            read=offered.count() + (corrected.count() if corrected is not None else 0),
            written=changes.count(),
            duplicate=told.where("offer >= known").count(),
        )
        facts = {"spec": spec, "expected_rows": books.read - books.duplicate - gone, "source_rows": books.read}
        rows = changes.where("not is_gone").drop("is_gone")
        note = batch.pass_gate(table, rows if books.read else None, books, facts) | {"counted_by": "commit"}
        if not books.is_balanced:
            raise BooksUnbalanced(f"{table}: the values in silver version {batch.version} are not all accounted for: {books.equation()}.")
        if (
            named == batch.version and not books.written
        ):  # made again on demand: without a change, and a version to name, MERGE commits nothing
            run.say(f"{table} {batch.batch_id}: the first events of {books.read} values are right as they are.")
            return
        app, transaction = batch.transaction(table, named)
        batch.leases.check()
        merge_once(
            run.settings, table, changes, key=spec.grain, is_gone="is_gone", app=app, transaction=transaction, note=note,
            partition_by="kind",
        )  # fmt: skip
        batch.finish(table, note, f"first events of {books.read} values at silver version {batch.version}; {books.equation()}")


def _offered(batch: GoldBatch, spec: FirstSeenSpec, named: int | None, dates: Sequence[date]) -> DataFrame:
    """The first events of what may move the table."""
    run, columns = batch.run, columns_of(batch.run, spec)
    events = added_events(run, -1 if named is None else named, batch.version, columns)
    if dates:
        events = events.unionByName(events_at(run, batch.version).where(_on(run.pipeline.silver.date, dates)).select(columns))
    return first_events(run, spec, events)


def _corrected(batch: GoldBatch, spec: FirstSeenSpec, offered: DataFrame, known: DataFrame, dates: Sequence[date]) -> DataFrame:
    """The rows to put in place of those that show an event which is on none of the dates any more, with `is_gone` where nothing is left."""
    from pyspark.sql import functions as F

    grain = list(spec.grain)
    shown = known.where(_on("to_date(known.first_event_at)", dates))
    there = offered.select(*grain, F.struct("first_event_at", batch.run.pipeline.silver.key).alias("there"))
    lost = shown.join(there, on=grain, how="left").where("there is null or there > known").select(*grain).persist()
    if lost.isEmpty():
        lost.unpersist()
        return offered.limit(0).withColumn("is_gone", F.lit(False))
    first = first_events(batch.run, spec, events_at(batch.run, batch.version)).withColumn("is_there", F.lit(True))
    return lost.join(first, on=grain, how="left").withColumn("is_gone", F.col("is_there").isNull()).drop("is_there")


def _on(expression: str, dates: Sequence[date]) -> Column:
    from pyspark.sql import functions as F

    return F.expr(expression).isin(list(dates)) if dates else F.lit(False)


def first_events(run: Run, spec: FirstSeenSpec, events: DataFrame) -> DataFrame:
    """The whole table as a batch over these events."""
    silver = run.pipeline.silver
    return first_of_each(events, kinds=spec.kinds, time=silver.time, key=silver.key, keeps=spec.keeps)


def columns_of(run: Run, spec: FirstSeenSpec) -> list[str]:
    """The silver columns that the table is made of."""
    silver = run.pipeline.silver
    return list(dict.fromkeys([silver.time, silver.key, *(column for _, column in spec.kinds), *spec.keeps]))
