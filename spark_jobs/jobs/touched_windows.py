"""Which windows of gold the new silver rows touch, and how many events each holds: read from silver's log and its added files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from spark_jobs.io.delta_log import Position, added_files, removed_files
from spark_jobs.io.delta_tables import read_table, spark_location
from spark_jobs.jobs.run import Run
from spark_jobs.jobs.silver_in_force import refuse_changes_by_others
from spark_jobs.spec.pipeline import GoldSpec
from spark_jobs.spec.windows import BUCKET_S, ranges

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DAY_S = 86_400


@dataclass(frozen=True)
class Touched:
    """The windows of one gold table to compute again: their starts (epoch seconds), and the silver version the table names so far."""

    spec: GoldSpec
    starts: tuple[int, ...]
    since: int | None = None

    @property
    def spans(self) -> list[tuple[int, int]]:
        return ranges(self.starts, self.spec.window.length_s)


def touched_buckets(run: Run, since: int, version: int) -> list[int]:
    """The instants (starts of BUCKET_S buckets) of all events that silver got, or lost, after version `since` and up to `version`.

    Raises SourceChanged when somebody else than a replay has changed rows that were counted.
    """
    if since >= 0:
        refuse_changes_by_others(run, since, version)
    schema = f"{run.pipeline.silver.time} timestamp"
    try:
        files = [*_added(run, since, version), *_removed(run, since, version)]
    except FileNotFoundError:  # silver's log no longer reaches back
        changed = events_at(run, version)
    else:
        if not files:
            return []
        changed = run.spark.read.schema(schema).parquet(*files)  # the column named, or Spark reads footers to learn it
    return [row.bucket for row in changed.select(_bucket(run).alias("bucket")).distinct().collect()]


def added_events(run: Run, since: int, version: int, columns: Sequence[str]) -> DataFrame:
    """The silver rows that came in after version `since` and up to `version`.

    Read from the added files themselves: a micro-batch can end inside a version. Rows that a commit only wrote anew (in a file with
    changed ones) are left out. When silver's log no longer reaches back: all rows.
    """
    silver = events_at(run, version)
    names = list(dict.fromkeys([*columns, "_rid"]))
    try:
        added, removed = _added(run, since, version), _removed(run, since, version)
    except FileNotFoundError:
        return silver.select(*columns)
    reader = run.spark.read.schema(silver.select(names).schema)
    if not added:
        return silver.select(*columns).limit(0)
    rows = reader.parquet(*added)
    if removed:
        rows = rows.join(reader.parquet(*removed).select("_rid"), on="_rid", how="left_anti")
    return rows.select(*columns)


def changed_dates(run: Run, since: int, version: int) -> list[date]:
    """The partitions of silver in which rows were changed or taken out after version `since` and up to `version`."""
    column = run.pipeline.silver.date
    try:
        removed = list(removed_files(run.settings, run.pipeline.silver_table, since, version))
    except FileNotFoundError:  # nobody knows
        return [row[0] for row in events_at(run, version).select(column).distinct().collect()]
    return sorted({date.fromisoformat(file.partition[column]) for file in removed})


def _added(run: Run, since: int, version: int) -> list[str]:
    root = spark_location(run.settings, run.pipeline.silver_table)
    files = added_files(run.settings, run.pipeline.silver_table, Position(since + 1, -1), version)
    return [f"{root}/{file.path}" for file in files if file.rows != 0]


def _removed(run: Run, since: int, version: int) -> list[str]:
    root = spark_location(run.settings, run.pipeline.silver_table)
    return [f"{root}/{file.path}" for file in removed_files(run.settings, run.pipeline.silver_table, since, version)]


def bucket_counts(run: Run, events: DataFrame, specs: Sequence[GoldSpec]) -> dict[str, dict[int, int]]:
    """For each predicate of the gold tables, the number of events per bucket: the count that gold must reproduce, made another way."""
    from pyspark.sql import functions as F

    predicates = sorted({"true", *(spec.of for spec in specs)})
    counted = events.groupBy(_bucket(run).alias("bucket")).agg(*[F.count_if(F.expr(of)).alias(f"n{i}") for i, of in enumerate(predicates)])
    rows = counted.collect()
    return {of: {row.bucket: row[f"n{i}"] for row in rows} for i, of in enumerate(predicates)}


def events_at(run: Run, version: int) -> DataFrame:
    return read_table(run.spark, run.settings, run.pipeline.silver_table, version)


def events_of_spans(run: Run, version: int, spans: Sequence[tuple[int, int]]) -> DataFrame:
    """Silver at a version, the partitions and rows of these spans alone."""
    return events_at(run, version).where(_on_dates(run, spans) & within_spans(run, spans))


def buckets_of_dates(dates: Iterable[date]) -> list[int]:
    """The starts of all buckets of these days (UTC)."""
    midnights = [int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) for day in dates]
    return [bucket for start in midnights for bucket in range(start, start + DAY_S, BUCKET_S)]


def dates_of(spans: Sequence[tuple[int, int]]) -> list[date]:
    """The days (UTC) that the spans lie on, sorted."""
    return sorted({datetime.fromtimestamp(day, UTC).date() for low, high in spans for day in range(low - low % DAY_S, high, DAY_S)})


def within_spans(run: Run, spans: Sequence[tuple[int, int]]) -> Column:
    """Events of these spans. Names no column but the time: one that the cached events lack would make Spark read silver again."""
    from pyspark.sql import functions as F

    time = F.col(run.pipeline.silver.time)
    within = F.lit(False)
    for low, high in spans:
        within = within | ((time >= F.timestamp_seconds(F.lit(low))) & (time < F.timestamp_seconds(F.lit(high))))
    return within


def starts_within(spans: Sequence[tuple[int, int]]) -> Column:
    """Windows whose start lies in one of the ranges."""
    from pyspark.sql import functions as F

    instant = F.unix_seconds("window_start")
    within = F.lit(False)
    for low, high in spans:
        within = within | instant.between(low, high - 1)
    return within


def replaced_windows(touched: Touched) -> str:
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


def _bucket(run: Run) -> Column:
    from pyspark.sql import functions as F

    seconds = F.unix_seconds(run.pipeline.silver.time)
    return seconds - F.pmod(seconds, F.lit(BUCKET_S))


def _on_dates(run: Run, spans: Sequence[tuple[int, int]]) -> Column:
    """Silver's partitions that hold the spans."""
    from pyspark.sql import functions as F

    return F.col(run.pipeline.silver.date).isin(dates_of(spans))
