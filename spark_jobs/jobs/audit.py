"""Audit: cells of gold computed once more, by batch from silver at the very version that the gold table names, and compared.

A cell is one row of a gold table. In full mode all cells are compared; else a number of cells is drawn by seed, half of them from gold's
rows and half by way of silver's events (whose cells gold may lack), and every cell of their windows is compared.
"""

from __future__ import annotations

import argparse
import importlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from spark_jobs.io.delta_tables import read_table
from spark_jobs.io.lake import lake_table
from spark_jobs.io.work import silver_app
from spark_jobs.jobs.audit_compare import AuditResult, compare, with_sentence
from spark_jobs.jobs.audit_draw import Population
from spark_jobs.jobs.first_seen import columns_of, first_events
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.jobs.touched_windows import buckets_of_dates, dates_of, events_at, events_of_spans, starts_within
from spark_jobs.spec.errors import BooksUnbalanced, ConfigurationFault, UnknownName
from spark_jobs.spec.pipeline import FirstSeenSpec, GoldSpec
from spark_jobs.spec.tables import AUDITS, TableId
from spark_jobs.spec.windows import BUCKET_S, ranges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CELLS = 20  # drawn per table and day: a fault in 1 % of the cells is found within a day by 18 %, within a month by 99.8 %


@dataclass(frozen=True)
class _Task:
    """One gold table to audit, at a version; with the silver version that this one names."""

    run: Run
    spec: GoldSpec | FirstSeenSpec
    gold_version: int
    silver_version: int
    dates: tuple[date, ...]
    cells: int | None
    seed: str

    @property
    def table(self) -> TableId:
        return self.run.pipeline.gold_table(self.spec)

    def population(self, of: TableId, version: int, date_column: str) -> Population:
        days = frozenset(map(str, self.dates)) if date_column else frozenset()
        return Population(self.run.settings, of, version, f"{self.seed}|{self.table}|{of}", date_column, days)


def audit(
    run: Run, *, tables: Sequence[str] | None = None, dates: Sequence[date] | None = None, cells: int | None = None, seed: str = ""
) -> list[AuditResult]:
    """Audit gold tables (default: all that were ever written); records each in `_ops.audits`. `cells` None compares all cells.

    `dates` keeps it to the windows that begin on those days, and to values first seen on them. Raises UnknownName.
    """
    pipeline, settings = run.pipeline, run.settings
    specs: dict[str, GoldSpec | FirstSeenSpec] = {str(pipeline.gold_table(spec)): spec for spec in pipeline.gold}
    if pipeline.first_seen is not None:
        specs[str(pipeline.gold_table(pipeline.first_seen))] = pipeline.first_seen
    if unknown := [name for name in tables or () if name not in specs]:
        raise UnknownName(f"There is no gold table {unknown[0]}. Known: {', '.join(specs)}.")
    audit_id = uuid.uuid5(uuid.NAMESPACE_URL, f"audit|{run.run_id}").hex
    results = []
    for name in tables or specs:
        gold = lake_table(settings, pipeline.gold_table(specs[name]))
        named = None if gold is None else gold.transaction_version(silver_app(settings, pipeline))
        if gold is None or named is None:
            run.say(f"{name}: was never written, so there is nothing to audit.")
            continue
        task = _Task(run, specs[name], int(gold.version()), named, tuple(dates or ()), cells, seed or run.run_id)
        result = _of_windows(task, task.spec) if isinstance(task.spec, GoldSpec) else _of_first_seen(task, task.spec)
        run.say(result.sentence)
        run.ops.append(AUDITS, [_row(run, audit_id, result, task.dates)])
        results.append(result)
    return results


def _of_windows(task: _Task, spec: GoldSpec) -> AuditResult:
    run = task.run
    transforms = importlib.import_module(f"spark_jobs.pipelines.{run.pipeline.name}.gold")
    population = task.population(task.table, task.gold_version, "window_date")
    gold = read_table(run.spark, run.settings, task.table, task.gold_version)
    if task.cells is None and not task.dates:
        expected, found = transforms.TABLES[spec.subject](events_at(run, task.silver_version).select(*transforms.COLUMNS)), gold
    else:
        starts = _drawn_starts(task, spec, population) if task.cells is not None else _starts_on(task.dates, spec)
        within = ranges(starts, spec.window.slide_s)
        events = events_of_spans(run, task.silver_version, ranges(starts, spec.window.length_s)).select(*transforms.COLUMNS)
        expected = transforms.TABLES[spec.subject](events).where(starts_within(within))
        found = gold.where(gold["window_date"].isin(dates_of(within)) & starts_within(within))
    return _compared(task, expected, found, ["window_start", *spec.grain], population.rows)


def _drawn_starts(task: _Task, spec: GoldSpec, population: Population) -> list[int]:
    """The windows of the drawn cells: of rows of gold, and of events of silver."""
    assert task.cells is not None
    silver = task.run.pipeline.silver
    starts = {int(row["window_start"].timestamp()) for row in population.draw(task.cells - task.cells // 2, ["window_start"])}
    events = task.population(task.run.pipeline.silver_table, task.silver_version, silver.date)
    for row in events.draw(task.cells // 2, [silver.time]):
        second = int(row[silver.time].timestamp())
        starts.add(events.random.choice(spec.window.starts_for(second - second % BUCKET_S)))
    return sorted(starts)


def _starts_on(dates: Sequence[date], spec: GoldSpec) -> list[int]:
    """All windows that begin on these days."""
    return sorted({bucket for bucket in buckets_of_dates(dates) if bucket % spec.window.slide_s == 0})


def _of_first_seen(task: _Task, spec: FirstSeenSpec) -> AuditResult:
    from pyspark.sql import functions as F

    run, grain = task.run, list(spec.grain)
    population = task.population(task.table, task.gold_version, "")
    found = read_table(run.spark, run.settings, task.table, task.gold_version)
    events = events_at(run, task.silver_version).select(columns_of(run, spec))
    if task.cells is not None:
        drawn = {(row["kind"], row["value"]) for row in population.draw(task.cells - task.cells // 2, grain)}
        silver = task.population(run.pipeline.silver_table, task.silver_version, run.pipeline.silver.date)
        for row in silver.draw(task.cells // 2, [column for _, column in spec.kinds]):
            drawn |= {(kind, row[column]) for kind, column in spec.kinds if row[column] is not None}
        has_one = F.lit(False)
        for kind, column in spec.kinds:
            has_one = has_one | F.col(column).isin([value for of, value in drawn if of == kind])
        wanted = run.spark.createDataFrame(sorted(drawn), "kind string, value string")
        expected = first_events(run, spec, events.where(has_one)).join(wanted, on=grain, how="left_semi")
        found = found.join(wanted, on=grain, how="left_semi")
    else:
        expected = first_events(run, spec, events)
    if task.dates:
        expected, found = (rows.where(F.to_date("first_event_at").isin(list(task.dates))) for rows in (expected, found))
    return _compared(task, expected, found, grain, population.rows)


def _compared(task: _Task, expected: DataFrame, found: DataFrame, key: list[str], total: int) -> AuditResult:
    cells, mismatched, shown = compare(expected, found, key)
    mode = "full" if task.cells is None else "sample"
    return with_sentence(AuditResult(str(task.table), mode, cells, total, mismatched, task.silver_version, task.gold_version, tuple(shown)))


def _row(run: Run, audit_id: str, result: AuditResult, dates: Sequence[date]) -> dict[str, Any]:
    return {
        "audit_id": audit_id, "pipeline": run.pipeline.name, "table": result.table, "run_id": run.run_id, "mode": result.mode,
        "cells": result.cells, "cells_total": result.cells_total, "mismatched": result.mismatched, "silver_version": result.silver_version,
        "gold_version": result.gold_version, "from_date": min(dates, default=None), "to_date": max(dates, default=None),
        "is_equal": result.is_equal, "mismatches": json.dumps(result.mismatches), "sentence": result.sentence, "audited_at": run.clock(),
    }  # fmt: skip


def _work(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """Compare gold's cells with a batch over silver at the version that each table names; exit code 5 when one differs."""
    try:
        found = audit(
            run, tables=options.table or None, dates=_dates(options.first, options.last), cells=None if options.full else options.cells,
            seed=options.seed,
        )  # fmt: skip
    finally:
        if run.has_session:
            run.spark.stop()
    wrong = [one.sentence for one in found if not one.is_equal]
    cells = sum(one.cells for one in found)
    right = f"The audit found {cells:,} cells of {len(found)} gold tables equal to silver."
    sentence = " ".join(wrong) or (right if cells else "There was no cell of gold to compare, so the audit shows nothing.")
    return {"sentence": sentence, "tables": [asdict(one) | {"is_equal": one.is_equal} for one in found], "is_equal": not wrong}


def _dates(first: date | None, last: date | None) -> list[date] | None:
    start, end = first or last, last or first
    if start is None or end is None:
        return None
    if end < start:
        raise ConfigurationFault(f"--from {start} is after --to {end}.")
    return [start + timedelta(days=day) for day in range((end - start).days + 1)]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--full", action="store_true", help="compare every cell, not a sample")
    parser.add_argument("--cells", type=int, default=CELLS, help=f"cells to draw per table (default {CELLS})")
    parser.add_argument("--table", action="append", help="only this gold table; may be given several times")
    parser.add_argument("--from", dest="first", type=date.fromisoformat, help="first day (UTC), yyyy-mm-dd")
    parser.add_argument("--to", dest="last", type=date.fromisoformat, help="last day")
    parser.add_argument("--seed", default="", help="what the draw depends on (default: the run id)")


def main() -> int:
    """run_job's exit code, or that of BooksUnbalanced when a cell differs."""
    unequal: list[str] = []

    def work(run: Run, options: argparse.Namespace) -> dict[str, Any]:
        done = _work(run, options)
        unequal.extend([] if done["is_equal"] else [done["sentence"]])
        return done

    return run_job("audit", work, add_options) or (BooksUnbalanced.exit_code if unequal else 0)


if __name__ == "__main__":
    leave(main())
