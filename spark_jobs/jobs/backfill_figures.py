"""What the lake holds of each day: files and records by the date of their folder, events and gold sums by the date of the event. No JVM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.io.lake import lake_table, rows_of
from spark_jobs.io.ledger_files import ledger_rows
from spark_jobs.jobs.backfill_contents import rows_by_day
from spark_jobs.jobs.run import Run
from spark_jobs.spec.tables import FILE_OUTCOMES, FILES, TableId


def figures_by_day(run: Run, days: Sequence[date]) -> dict[str, dict[str, int]]:
    """For each day (ISO): files (read), records (in them), events (in silver), and for each windowed gold table the sum that it counts."""
    files, records = _read_by_day(run, days)
    silver = rows_by_day(run.settings, run.pipeline.silver_table, run.pipeline.silver.date)
    sums = {str(table): _sums_by_day(run, table, counts, days) for table, counts in gold_counts(run).items()}
    return {
        day.isoformat(): {
            "files": files[day], "records": records[day], "events": silver[day], **{name: counted[day] for name, counted in sums.items()}
        }
        for day in sorted(days)
    }  # fmt: skip


def gold_counts(run: Run) -> dict[TableId, str]:
    """The windowed gold tables, each with the column that it counts events in."""
    return {run.pipeline.gold_table(spec): spec.counts for spec in run.pipeline.gold}


def _read_by_day(run: Run, days: Sequence[date]) -> tuple[Counter[date], Counter[date]]:
    ledger = ledger_rows(lake_table(run.settings, FILES), set(days), ["file_id", "prefix_date", "pipeline"])
    dated = {row["file_id"]: row["prefix_date"] for row in ledger.to_pylist() if row["pipeline"] == run.pipeline.name}
    wanted = (pc.field("outcome") == "ok") & (pc.field("pipeline") == run.pipeline.name)
    outcomes = run.ops.read(FILE_OUTCOMES, ["file_id", "records"], wanted)
    outcomes = outcomes.filter(pc.is_in(outcomes["file_id"], value_set=pa.array(list(dated), pa.string())))
    files: Counter[date] = Counter()
    records: Counter[date] = Counter()
    for name, count in zip(outcomes["file_id"].to_pylist(), outcomes["records"].to_pylist(), strict=True):
        files[dated[name]] += 1
        records[dated[name]] += count or 0
    return files, records


def _sums_by_day(run: Run, table: TableId, counts: str, days: Sequence[date]) -> Counter[date]:
    found = lake_table(run.settings, table)
    if found is None or not days:
        return Counter()
    within = (pc.field("window_date") >= min(days)) & (pc.field("window_date") <= max(days))
    rows = rows_of(found).to_table(columns=["window_date", counts], filter=within)
    summed = rows.group_by("window_date").aggregate([(counts, "sum")]).to_pylist()
    return Counter({row["window_date"]: row[f"{counts}_sum"] or 0 for row in summed})
