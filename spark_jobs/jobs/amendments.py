"""Amendments: a window that had settled and changes all the same is written down, before gold shows it.

Gold stays exact whatever comes late; `_ops.amendments` is what keeps a late change from being silent. One batch may touch hundreds of
thousands of keys (history brought in), so the rows go from Spark to delta-rs one partition at a time and are never all in the driver's
memory. They are written by delta-rs as all `_ops` tables are: hourly and daily runs may do so at the same moment, which Spark's log store
cannot take on an object store.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.io.delta_log import latest_version
from spark_jobs.io.delta_tables import read_table
from spark_jobs.io.lake import lake_table, rows_of
from spark_jobs.io.ops import SCHEMAS
from spark_jobs.jobs.gold_batch import LIVE, GoldBatch
from spark_jobs.jobs.touched_windows import Touched, added_events, dates_of, starts_within
from spark_jobs.spec.pipeline import GoldSpec
from spark_jobs.spec.tables import AMENDMENTS, FILES, TableId
from spark_jobs.spec.windows import ranges

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FILES_SHOWN = 20  # of the files that brought one change
ROWS_PER_WRITE = 5_000
_WINDOW = ("window_start", "window_end", "window_date")


def record_amendments(batch: GoldBatch, touched: Touched, windows: DataFrame) -> int:
    """Write what `windows` (as they will be) changes in windows of the table that have settled. Returns how many rows that are.

    Called before the gold commit; a batch that is repeated replaces its rows. Where nothing settled was touched no query is made.
    """
    run, table = batch.run, batch.run.pipeline.gold_table(touched.spec)
    settled = settled_starts(batch, touched)
    if run.backfill_id and settled:
        # History that is brought in where nothing was published changes nothing that anybody has seen; the backfill's own page has it.
        published = _published_starts(batch, table, settled, touched.spec.window.slide_s)
        settled = [start for start in settled if start in published]
    is_published = touched.since is not None and lake_table(run.settings, table) is not None
    if not settled or not is_published:
        run.ops.replace_batch_stream(AMENDMENTS, of=table, batch_id=batch.batch_id, rows=lambda: iter(()))
        return 0
    changed = _changed(batch, touched, windows, settled).persist()
    try:
        count = int(changed.count())
        batch.leases.check()
        run.ops.replace_batch_stream(
            AMENDMENTS, of=table, batch_id=batch.batch_id, rows=lambda: _rows(batch, touched.spec, changed) if count else iter(())
        )
    finally:
        changed.unpersist()
    if count:
        run.say(f"{table} {batch.batch_id}: {count} rows of settled windows change; see `assay late`.")
    return count


def settled_starts(batch: GoldBatch, touched: Touched) -> list[int]:
    """The touched windows whose end lies further back than the pipeline's lateness, by the clock of the batch."""
    bound = batch.started_at.timestamp() - batch.run.pipeline.lateness.total_seconds() - touched.spec.window.length_s
    return [start for start in touched.starts if start < bound]


def _published_starts(batch: GoldBatch, table: TableId, starts: Sequence[int], slide_s: int) -> set[int]:
    """Which of the windows the table has rows of, read without Spark."""
    found = lake_table(batch.run.settings, table)
    if found is None:
        return set()
    within = pc.field("window_date").isin(dates_of(ranges(starts, slide_s)))
    column = rows_of(found).to_table(columns=["window_start"], filter=within)["window_start"]
    return {int(start.timestamp()) for start in pc.unique(column).to_pylist()}


def _changed(batch: GoldBatch, touched: Touched, windows: DataFrame, settled: Sequence[int]) -> DataFrame:
    """One row per settled window and key that is not what was published: before, after, and the new events that brought it."""
    from pyspark.sql import functions as F

    run, spec = batch.run, touched.spec
    starts = ranges(settled, spec.window.slide_s)
    key = ["window_start", "window_end", *spec.grain]
    measures = [name for name in windows.columns if name not in (*_WINDOW, *spec.grain)]
    table = run.pipeline.gold_table(spec)
    # At its version of now: a driver that is frozen here and wakes up when another one has done the work must find no other changes.
    old = read_table(run.spark, run.settings, table, latest_version(run.settings, table))
    old = old.where(F.col("window_date").isin(dates_of(starts)) & starts_within(starts)).select(*key, F.struct(*measures).alias("before"))
    new = windows.where(starts_within(starts)).select(*key, F.struct(*measures).alias("after"))
    pairs = new.join(old, on=key, how="full").where("not (before <=> after)")
    brought = _brought(batch, spec, starts, -1 if touched.since is None else touched.since)
    told = pairs.join(brought, on=key, how="left")
    return told.select(
        "window_start",
        "window_end",
        _json(F.struct(*spec.grain)).alias("key"),
        F.when(F.col("before").isNotNull(), _json("before")).alias("before"),
        F.when(F.col("after").isNotNull(), _json("after")).alias("after"),
        F.coalesce("events", F.lit(0)).alias("events"),
        (F.unix_seconds("newest") - F.unix_seconds("window_end")).alias("late_s"),
        F.slice(F.sort_array(F.coalesce("files", F.array().cast("array<string>"))), 1, FILES_SHOWN).alias("files"),
    )


def _brought(batch: GoldBatch, spec: GoldSpec, starts: Sequence[tuple[int, int]], since: int) -> DataFrame:
    """Per window and key: how many new events of silver it has, when the latest of them was taken in, and their files."""
    from pyspark.sql import functions as F

    run, time = batch.run, batch.run.pipeline.silver.time
    names = importlib.import_module(f"spark_jobs.pipelines.{run.pipeline.name}.gold").COLUMNS
    predicate = [name for name in names if name not in (time, *spec.grain) and re.search(rf"\b{name}\b", spec.of)]
    added = added_events(run, since, batch.version, [time, *spec.grain, *predicate, "_ingested_at", "_source_file"])
    window = F.window(time, f"{spec.window.length_s} seconds", f"{spec.window.slide_s} seconds")
    counted = added.where(spec.of).groupBy(window.alias("window"), *spec.grain)
    told = counted.agg(F.count("*").alias("events"), F.max("_ingested_at").alias("newest"), F.collect_set("_source_file").alias("files"))
    told = told.select(F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"), "*").drop("window")
    return told.where(starts_within(starts))


def _json(struct: Column | str) -> Column:
    from pyspark.sql import functions as F

    return F.to_json(struct, {"ignoreNullFields": "false"})


def _rows(batch: GoldBatch, spec: GoldSpec, changed: DataFrame) -> Iterator[pa.RecordBatch]:
    """The rows of the table in pieces, with how their files were admitted.

    The ledger is asked before the first piece: later ones are asked for from within delta-rs's write, which cannot read meanwhile.
    """
    run, now = batch.run, batch.run.clock()
    common = {
        "pipeline": run.pipeline.name, "table": str(run.pipeline.gold_table(spec)), "silver_version": batch.version,
        "batch_id": batch.batch_id, "run_id": run.run_id, "amended_at": now,
    }  # fmt: skip
    admitted = _admitted(batch, changed)
    piece: list[dict[str, Any]] = []
    for row in changed.toLocalIterator():  # one partition at a time
        piece.append(common | row.asDict())
        if len(piece) == ROWS_PER_WRITE:
            yield _as_arrow(batch, piece, admitted)
            piece = []
    if piece:
        yield _as_arrow(batch, piece, admitted)


def _admitted(batch: GoldBatch, changed: DataFrame) -> dict[str, str]:
    """How each file that brought a change was admitted."""
    from pyspark.sql import functions as F

    if batch.brought_by != LIVE:
        return {}
    paths = [row.path for row in changed.select(F.explode("files").alias("path")).distinct().collect()]
    if not paths:  # a replay took rows out: no file brought that
        return {}
    asked = pc.field("path").isin(sorted(paths)) & (pc.field("admitted") != "retry")  # read again: who brought it is told elsewhere
    found = batch.run.ops.read(FILES, ["path", "admitted"], asked).to_pylist()
    return dict.fromkeys(paths, LIVE) | {row["path"]: row["admitted"] for row in found}


def _as_arrow(batch: GoldBatch, piece: Sequence[Mapping[str, Any]], admitted: Mapping[str, str]) -> pa.RecordBatch:
    rows = [
        {
            **row,
            "files": json.dumps(row["files"]),
            "brought_by": batch.brought_by if batch.brought_by != LIVE else _brought_by(row["files"], admitted),
            "window_start": _utc(row["window_start"]),
            "window_end": _utc(row["window_end"]),
        }
        for row in piece
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMAS[AMENDMENTS])


def _brought_by(files: Sequence[str], admitted: Mapping[str, str]) -> str:
    """How the files were admitted; `live` as soon as one of them was."""
    ways = {admitted[path] for path in files}
    return LIVE if LIVE in ways or not ways else sorted(ways)[0]


def _utc(moment: datetime) -> datetime:
    """A time that Spark has collected: naive, in the zone of the driver."""
    return moment.astimezone(UTC)
