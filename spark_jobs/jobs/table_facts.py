"""What the suite over whole tables is given: figures of one day, each counted from a table of its own.

The day is one of arrival: the files that were read on it are followed through all layers. Gold is compared on the dates that their
events are of, and the volume is that of the events that happened on the day.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.io.delta_log import added_files
from spark_jobs.io.delta_tables import read_table, spark_location
from spark_jobs.io.lake import lake_table, rows_of
from spark_jobs.io.work import silver_app, silver_checkpoint
from spark_jobs.jobs.run import Run
from spark_jobs.jobs.touched_windows import bucket_counts, events_of_spans
from spark_jobs.report.progress import newest_event
from spark_jobs.report.views import LakeViews
from spark_jobs.spec.pipeline import GoldSpec
from spark_jobs.spec.tables import BOOKS, FILE_OUTCOMES, SIDES, TableId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAYS_BEFORE = 14  # two weeks, so that each weekday is in it twice
FEWEST_DAYS = 7  # of history: with fewer, one odd day decides what is usual
BAND = 4  # median absolute deviations (as standard deviations): of normal days one in 16,000 lies beyond
LEAST_SPREAD = 0.1  # of the median: days that are nearly alike make no band of nothing
NORMAL = 1.4826  # the standard deviation of normal data in median absolute deviations
DAY_S = 86_400
SMALL_BYTES = 64_000_000  # of Parquet; about a million events


@dataclass(frozen=True)
class DayOfFiles:
    """The files that were read without a fault on one day, and the records that their readings found in them."""

    day: date
    file_ids: tuple[str, ...]
    records: int


def day_of_files(run: Run, day: date | None = None) -> DayOfFiles | None:
    """The files read on the day (default: yesterday, or if nothing was read then, the newest day on which something was); None if none.

    Readings of a batch that its gate stopped are left out: nothing of it was written, and its files are read again with it.
    """
    ok = (pc.field("pipeline") == run.pipeline.name) & (pc.field("outcome") == "ok")
    read = run.ops.read(FILE_OUTCOMES, ["file_id", "batch_id", "records", "read_at"], ok).to_pylist()
    booked = set(run.ops.read(BOOKS, ["batch_id"], pc.field("table") == str(run.pipeline.bronze_table))["batch_id"].to_pylist())
    days: dict[date, dict[str, int]] = {}
    for row in read:
        if row["batch_id"] in booked:
            days.setdefault(row["read_at"].astimezone(UTC).date(), {})[row["file_id"]] = row["records"]
    yesterday = run.clock().date() - timedelta(days=1)
    wanted = day or (yesterday if yesterday in days else max(days, default=yesterday))
    return DayOfFiles(wanted, tuple(sorted(days[wanted])), sum(days[wanted].values())) if wanted in days else None


def is_small(run: Run) -> bool:
    """True when the whole of silver is read sooner by a session that compiles no code."""
    found = lake_table(run.settings, run.pipeline.silver_table)
    return found is None or sum(pa.table(found.get_add_actions(flatten=True))["size_bytes"].to_pylist()) <= SMALL_BYTES


def facts_of_day(run: Run, files: DayOfFiles) -> dict[str, Any]:
    """The facts of `expectations/<pipeline>/tables.py`."""
    now, views = run.clock(), LakeViews(run.settings)
    event = newest_event(views, run.pipeline)
    (landed,) = views.rows("SELECT max(modified_at) AS landed_at FROM _ops.files WHERE pipeline = $name", {"name": run.pipeline.name})
    return {
        "records": files.records,
        **layers(run, files),
        "volume": volume(events_by_date(run), files.day, now.date()),
        "event_age_minutes": _minutes(now, event),
        "arrival_age_minutes": _minutes(now, landed["landed_at"]),
        "fresh_minutes": int(run.pipeline.freshness.total_seconds() // 60),
    }


def layers(run: Run, files: DayOfFiles) -> dict[str, Any]:
    """The records of these files as each layer holds them: `in_bronze`, `bronze_rows`, `in_silver`, and `gold`."""
    of_files = run.spark.createDataFrame([(one,) for one in files.file_ids], "file_id string")
    bronze, silver = run.pipeline.bronze_table, run.pipeline.silver_table
    # Before the tables are counted: what silver reads meanwhile is counted twice, never not at all, and the count is made again.
    unread = _rows_unread(run, of_files)
    counts = {table: _rows_of_files(run, table, of_files) for main in (bronze, silver) for table in (main, *map(main.side, SIDES))}
    dates = _dates_of_files(run, of_files)
    return {
        "in_bronze": sum(count for table, count in counts.items() if table.layer == "bronze"),
        "bronze_rows": counts[bronze],
        "in_silver": unread + sum(count for table, count in counts.items() if table.layer == "silver"),
        "gold": gold_sums(run, dates),
    }


def gold_sums(run: Run, dates: Sequence[date]) -> dict[str, tuple[int, int]]:
    """For each windowed gold table, on the dates: the sum of its counts, and the silver rows that it must have counted, each per window."""
    sums: dict[str, tuple[int, int]] = {}
    for spec in run.pipeline.gold:
        found = lake_table(run.settings, run.pipeline.gold_table(spec))
        named = None if found is None else found.transaction_version(silver_app(run.settings, run.pipeline))
        if found is None or named is None or not dates:
            continue
        # Of the one state that was opened: its rows, and the silver version that it names.
        rows = rows_of(found).to_table(columns=[spec.counts], filter=pc.field("window_date").isin(list(dates)))
        starts = _starts(spec, dates)
        spans = [(midnight, midnight + DAY_S + spec.window.length_s) for midnight in map(_midnight, dates)]
        counts = bucket_counts(run, events_of_spans(run, named, spans), [spec])[spec.of]
        sums[str(run.pipeline.gold_table(spec))] = (pc.sum(rows[spec.counts]).as_py() or 0, spec.window.expected_sum(starts, counts))
    return sums


def events_by_date(run: Run) -> dict[date, int]:
    """How many events silver has on each date, from the statistics in its log."""
    found = lake_table(run.settings, run.pipeline.silver_table)
    if found is None:
        return {}
    files = pa.table(found.get_add_actions(flatten=True))
    counts: dict[date, int] = {}
    for day, rows in zip(files[f"partition.{run.pipeline.silver.date}"].to_pylist(), files["num_records"].to_pylist(), strict=True):
        counts[day] = counts.get(day, 0) + int(rows or 0)
    return counts


def volume(events: Mapping[date, int], day: date, today: date) -> dict[str, Any]:
    """The events of the day against those of the DAYS_BEFORE days before it: `events`, `low`, `high`, `not_judged`.

    The band is the median ± BAND robust standard deviations. A day without events counts, once events have begun in these days.
    """
    days = [day - timedelta(days=n) for n in range(DAYS_BEFORE, 0, -1)]
    begun = min((one for one in days if events.get(one)), default=day)
    before = [events.get(one, 0) for one in days if one >= begun]
    found: dict[str, Any] = {"events": events.get(day, 0), "low": None, "high": None, "not_judged": ""}
    if day >= today:
        return found | {"not_judged": f"{day} is not over"}
    if len(before) < FEWEST_DAYS:
        return found | {"not_judged": f"{len(before)} days of history before {day}, {FEWEST_DAYS} are wanted"}
    middle = statistics.median(before)
    if not middle:
        return found | {"not_judged": f"most of the {len(before)} days before {day} had no event, so no number is usual"}
    spread = max(NORMAL * statistics.median(abs(count - middle) for count in before), LEAST_SPREAD * middle)
    return found | {"low": max(0, round(middle - BAND * spread)), "high": round(middle + BAND * spread)}


def _rows_of_files(run: Run, table: TableId, of_files: DataFrame) -> int:
    if lake_table(run.settings, table) is None:
        return 0
    return _within(read_table(run.spark, run.settings, table), of_files).count()


def _rows_unread(run: Run, of_files: DataFrame) -> int:
    """The bronze rows of these files that silver has not read yet, from the data files themselves."""
    bronze = run.pipeline.bronze_table
    position = silver_checkpoint(run.settings, run.pipeline).position()
    try:
        paths = [f"{spark_location(run.settings, bronze)}/{file.path}" for file in added_files(run.settings, bronze, position)]
    except FileNotFoundError:  # so far behind that the log does not tell: silver has read nothing, or is to be built again
        return _rows_of_files(run, bronze, of_files)
    if not paths:
        return 0
    return _within(run.spark.read.schema("_rid string").parquet(*paths), of_files).count()


def _dates_of_files(run: Run, of_files: DataFrame) -> list[date]:
    silver = run.pipeline.silver_table
    if lake_table(run.settings, silver) is None:
        return []
    events = _within(read_table(run.spark, run.settings, silver), of_files, run.pipeline.silver.date)
    return sorted(row[0] for row in events.select(run.pipeline.silver.date).distinct().collect())


def _within(rows: DataFrame, of_files: DataFrame, *columns: str) -> DataFrame:
    """The rows that come from one of the files: a record's id begins with its file's."""
    from pyspark.sql import functions as F

    named = rows.select(F.substring_index("_rid", ":", 1).alias("file_id"), *columns)
    return named.join(F.broadcast(of_files), "file_id", how="left_semi")


def _starts(spec: GoldSpec, dates: Sequence[date]) -> list[int]:
    """The starts of all windows that begin on the dates."""
    return [start for day in dates for start in range(_midnight(day), _midnight(day) + DAY_S, spec.window.slide_s)]


def _midnight(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())


def _minutes(now: datetime, then: datetime | None) -> int | None:
    return None if then is None else max(0, int((now - then).total_seconds() // 60))
