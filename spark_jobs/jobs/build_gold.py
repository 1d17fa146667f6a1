"""Gold: windowed aggregates, recomputed and never accumulated, so that each equals a batch over silver at the version it names.

The stream on silver is only the clock. Which windows to compute again is read from silver's log: every file added since the version that
the gold table's last commit names. They are replaced in one commit that names the version they were computed from.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from spark_jobs.io.delta_log import Position, added_files, latest_version
from spark_jobs.io.delta_tables import read_stream, read_table, replace_where, spark_location
from spark_jobs.io.lease import Leases
from spark_jobs.io.work import check_gold_in_force, commit_notes, gold_checkpoint, is_gold_stranded, named_silver_version, silver_app
from spark_jobs.jobs.publishing import judge, own_commit, write_books
from spark_jobs.jobs.query import LayerQuery
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.spec.books import Books
from spark_jobs.spec.errors import BooksUnbalanced, GateStopped
from spark_jobs.spec.gates import Verdict
from spark_jobs.spec.pipeline import GoldSpec
from spark_jobs.spec.windows import BUCKET_S, ranges

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class Touched:
    """The windows of one gold table to compute again: their starts (epoch seconds)."""

    spec: GoldSpec
    starts: tuple[int, ...]

    @property
    def spans(self) -> list[tuple[int, int]]:
        return ranges(self.starts, self.spec.window.length_s)


def build_gold(run: Run) -> None:
    """All gold tables up to silver's latest version. Raises GateStopped, LeaseHeld, CheckpointDamaged, BooksUnbalanced."""
    with Leases(run.settings, run.pipeline.gold_tables, run.run_id) as leases:
        start_gold(run, leases).wait()


def start_gold(run: Run, leases: Leases) -> LayerQuery:
    checkpoint = gold_checkpoint(run.settings, run.pipeline)
    checkpoint.open()
    for table in run.pipeline.gold_tables:
        check_gold_in_force(run.settings, run.pipeline, table)
    if is_gold_stranded(run.settings, run.pipeline):  # the stream has nothing to say, so nothing would bring the table up
        build_batch(run, leases, f"{checkpoint.newest_batch_id()}.again")
    events = read_stream(run.spark, run.settings, run.pipeline.silver_table)

    def clocked(_: DataFrame, number: int) -> None:
        build_batch(run, leases, checkpoint.batch_id(number))

    return LayerQuery(run, run.pipeline.gold_stream, events, clocked, checkpoint)


def build_batch(run: Run, leases: Leases, batch_id: str) -> None:
    """Bring every gold table from the silver version it names to silver's latest one."""
    started_at = run.clock()
    version = latest_version(run.settings, run.pipeline.silver_table)
    if version is None:
        return
    buckets: dict[int, list[int]] = {}  # the touched instants since a version; the gold tables usually name the same one
    touched = []
    for spec in run.pipeline.gold:
        named = named_silver_version(run.settings, run.pipeline, run.pipeline.gold_table(spec))
        if named == version:
            _complete_books(run, spec)
            continue
        since = -1 if named is None else named
        if since not in buckets:
            buckets[since] = touched_buckets(run, since, version)
        touched.append(Touched(spec, tuple(spec.window.touched(buckets[since]))))
    if not touched:
        return
    transforms = importlib.import_module(f"spark_jobs.pipelines.{run.pipeline.name}.gold")
    spans = ranges([start for one in touched for start in one.starts], max((one.spec.window.length_s for one in touched), default=0))
    events = _events_at(run, version).where(_on_dates(run, spans) & _within_spans(run, spans)).select(*transforms.COLUMNS).persist()
    try:
        counts = bucket_counts(run, events, [one.spec for one in touched])
        for one in touched:
            _replace_windows(run, leases, one, events, counts, transforms.TABLES[one.spec.subject], version, batch_id, started_at)
    finally:
        events.unpersist()


def _replace_windows(
    run: Run, leases: Leases, touched: Touched, events: DataFrame, counts: dict[str, dict[int, int]], transform: Any, version: int,
    batch_id: str, started_at: datetime,
) -> None:  # fmt: skip
    from pyspark.sql import functions as F

    spec, table = touched.spec, run.pipeline.gold_table(touched.spec)
    instant = F.unix_seconds("window_start")
    # Windows at the edge of what was read are incomplete, unless they were touched themselves.
    windows = transform(events.where(_within_spans(run, touched.spans))).where(
        _in_ranges(instant, ranges(touched.starts, spec.window.slide_s))
    )
    windows = windows.coalesce(1).persist()
    try:
        expected = spec.window.expected_sum(touched.starts, counts[spec.of])
        summed = windows.agg(F.sum(spec.counts)).first()
        books = Books(read=expected, written=int((summed and summed[0]) or 0))
        facts = {"spec": spec, "expected_sum": expected, "source_rows": spec.window.expected_sum(touched.starts, counts["true"])}
        if touched.starts:
            verdict = judge(run, "gold", table, batch_id, windows, books, facts)
        else:  # silver's new versions hold no rows: all of a batch was held, quarantined or there already
            verdict = Verdict(str(table), batch_id, "none", "pass", f"{table} {batch_id}: no window was touched.")
        decision = run.decision(table, batch_id)
        if verdict.outcome in ("stop", "hold") and (decision is None or decision["decision"] != "release"):
            raise GateStopped(verdict.sentence)
        if not books.is_balanced:
            raise BooksUnbalanced(
                f"{table}: silver version {version} has {expected} events in the touched windows, gold counts {books.written}."
            )
        note = {
            "batch_id": batch_id, "silver_version": version, "run_id": run.run_id, "epoch": leases.epoch(table), "outcome": verdict.outcome,
            "decision": decision["decision"] if decision else None, "source_version": version, "books": books.terms(),
            "started_at": started_at.isoformat(),
        }  # fmt: skip
        leases.check()
        replace_where(
            run.settings, table, windows, where=_replaced(touched), partition_by="window_date",
            partitions=_dates(ranges(touched.starts, spec.window.slide_s)), app=silver_app(run.settings, run.pipeline), transaction=version,
            note=note,
        )  # fmt: skip
        committed = own_commit(run, table, note)
        leases.check()  # who took over meanwhile writes the books
        write_books(run, "gold", table, committed)
        run.say(f"{table} {batch_id}: {len(touched.starts)} windows at silver version {version}; {books.equation()}")
    finally:
        windows.unpersist()


def touched_buckets(run: Run, since: int, version: int) -> list[int]:
    """The instants (starts of BUCKET_S buckets) of all events added to silver after version `since` and up to `version`.

    Read from the added files themselves: a micro-batch can end inside a version. When silver's log no longer reaches back, all instants.
    """

    silver = run.pipeline.silver_table
    try:
        files = list(added_files(run.settings, silver, Position(since + 1, -1), version))
        root = spark_location(run.settings, silver)
        paths = [f"{root}/{file.path}" for file in files if file.rows != 0]
        if not paths:
            return []
        added = run.spark.read.schema(f"{run.pipeline.silver.time} timestamp").parquet(*paths)  # named, or Spark reads footers to learn it
    except FileNotFoundError:
        added = _events_at(run, version)
    rows = added.select(_bucket(run).alias("bucket")).distinct().collect()
    return [row.bucket for row in rows]


def bucket_counts(run: Run, events: DataFrame, specs: Sequence[GoldSpec]) -> dict[str, dict[int, int]]:
    """For each predicate of the gold tables, the number of events per bucket: the count that gold must reproduce, made another way."""
    from pyspark.sql import functions as F

    predicates = sorted({"true", *(spec.of for spec in specs)})
    counted = events.groupBy(_bucket(run).alias("bucket")).agg(*[F.count_if(F.expr(of)).alias(f"n{i}") for i, of in enumerate(predicates)])
    rows = counted.collect()
    return {of: {row.bucket: row[f"n{i}"] for row in rows} for i, of in enumerate(predicates)}


def _complete_books(run: Run, spec: GoldSpec) -> None:
    """A run that ended between a gold commit and its books left them out; they are in the commit's note."""
    table = run.pipeline.gold_table(spec)
    for note in commit_notes(run.settings, table):
        if "silver_version" in note:
            write_books(run, "gold", table, note)
            return


def _events_at(run: Run, version: int) -> DataFrame:
    return read_table(run.spark, run.settings, run.pipeline.silver_table, version)


def _bucket(run: Run) -> Column:
    from pyspark.sql import functions as F

    seconds = F.unix_seconds(run.pipeline.silver.time)
    return seconds - F.pmod(seconds, F.lit(BUCKET_S))


def _on_dates(run: Run, spans: Sequence[tuple[int, int]]) -> Column:
    """Silver's partitions that hold the spans."""
    from pyspark.sql import functions as F

    return F.col(run.pipeline.silver.date).isin(_dates(spans))


def _dates(spans: Sequence[tuple[int, int]]) -> list[date]:
    return sorted({datetime.fromtimestamp(day, UTC).date() for low, high in spans for day in range(low - low % 86_400, high, 86_400)})


def _within_spans(run: Run, spans: Sequence[tuple[int, int]]) -> Column:
    """Events of these spans. Names no column but the time: one that the cached events lack would make Spark read silver again."""
    from pyspark.sql import functions as F

    time = F.col(run.pipeline.silver.time)
    within = F.lit(False)
    for low, high in spans:
        within = within | ((time >= F.timestamp_seconds(F.lit(low))) & (time < F.timestamp_seconds(F.lit(high))))
    return within


def _in_ranges(instant: Column, spans: Sequence[tuple[int, int]]) -> Column:
    from pyspark.sql import functions as F

    within = F.lit(False)
    for low, high in spans:
        within = within | instant.between(low, high - 1)
    return within


def _replaced(touched: Touched) -> str:
    """The touched windows as a predicate on window_date and window_start; made of numbers only."""
    parts = []
    for low, high in ranges(touched.starts, touched.spec.window.slide_s):
        first, last = (datetime.fromtimestamp(second, UTC) for second in (low, high - 1))
        parts.append(
            # Spelled with <= since replaceWhere cannot take `between`: Spark parses that to an expression that Delta fails to resolve.
            f"(window_date >= date'{first:%Y-%m-%d}' and window_date <= date'{last:%Y-%m-%d}' and "
            f"window_start >= timestamp'{first:%Y-%m-%d %H:%M:%S}' and window_start <= timestamp'{last:%Y-%m-%d %H:%M:%S}')"
        )
    return " or ".join(parts) or "false"


def _work(run: Run, options: object) -> dict[str, Any]:
    """Compute the touched windows of every gold table again, through gold's gates."""
    from spark_jobs.jobs.run_layers import run_layers

    return run_layers(run, ("gold",))


if __name__ == "__main__":
    leave(run_job("build_gold", _work))
