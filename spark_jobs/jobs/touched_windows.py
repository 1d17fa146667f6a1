"""Which windows of gold the new silver rows touch, and how many events each holds: read from silver's log and its added files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from spark_jobs.io.delta_log import Position, added_files
from spark_jobs.io.delta_tables import read_table, spark_location
from spark_jobs.jobs.run import Run
from spark_jobs.spec.pipeline import GoldSpec
from spark_jobs.spec.windows import BUCKET_S, ranges

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

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
    """The instants (starts of BUCKET_S buckets) of all events added to silver after version `since` and up to `version`."""
    added = added_events(run, since, version, f"{run.pipeline.silver.time} timestamp")
    return [] if added is None else [row.bucket for row in added.select(_bucket(run).alias("bucket")).distinct().collect()]


def added_events(run: Run, since: int, version: int, schema: str | StructType) -> DataFrame | None:
    """The silver rows added after version `since` and up to `version`, in the columns of `schema`; None when there are none.

    Read from the added files themselves: a micro-batch can end inside a version. When silver's log no longer reaches back, all rows.
    """
    silver = run.pipeline.silver_table
    try:
        files = list(added_files(run.settings, silver, Position(since + 1, -1), version))
    except FileNotFoundError:
        return events_at(run, version)
    root = spark_location(run.settings, silver)
    paths = [f"{root}/{file.path}" for file in files if file.rows != 0]
    if not paths:
        return None
    return run.spark.read.schema(schema).parquet(*paths)  # the columns named, or Spark reads footers to learn them


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
