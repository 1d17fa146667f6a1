"""What a run did, in the figures a person asks for first: did all rows arrive, did they pass, what is in the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow.compute as pc

from spark_jobs.io.lake import lake_table, rows_of
from spark_jobs.io.ops import Ops
from spark_jobs.spec.books import TERMS
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import BOOKS, VERDICTS

BUSIEST = 5
BOOK_COLUMNS = {"table": "table", "read": "rows in"} | {term: term for term in TERMS[1:5]} | {"is_balanced": "balanced"}


def books_by_table(settings: Settings, pipeline: Pipeline, run_ids: Sequence[str]) -> list[dict[str, Any]]:
    """One row per table in data order: the sums of the books of these runs, and whether each batch of them balanced."""
    rows = Ops(settings).read(BOOKS, filter=pc.field("run_id").isin(list(run_ids))).to_pylist()
    found = []
    for table in map(str, pipeline.all_tables):
        batches = [row for row in rows if row["table"] == table]
        if batches:
            sums = {term: sum(row[term] or 0 for row in batches) for term in TERMS}
            found.append({"table": table, **sums, "is_balanced": all(row["is_balanced"] for row in batches), "batches": len(batches)})
    return found


def gates_of(settings: Settings, run_ids: Sequence[str]) -> list[dict[str, Any]]:
    """One row per suite evaluated in these runs: table, batch_id, outcome, sentence, how many expectations, how many of them failed."""
    rows = Ops(settings).read(VERDICTS, filter=pc.field("run_id").isin(list(run_ids))).to_pylist()
    suites: dict[str, dict[str, Any]] = {}
    for row in rows:
        kept = {name: row[name] for name in ("table", "batch_id", "outcome", "sentence")}
        suite = suites.setdefault(row["verdict_id"], kept | {"expectations": 0, "failed": 0})
        suite["expectations"] += 1
        suite["failed"] += not row["success"]
    return list(suites.values())


def busiest_rows(settings: Settings, pipeline: Pipeline, limit: int = BUSIEST) -> tuple[list[dict[str, Any]], str, str]:
    """The rows of the first gold table with the highest counts; with the names of that table and of its count column."""
    spec = pipeline.gold[0]
    table = pipeline.gold_table(spec)
    gold = lake_table(settings, table)
    if gold is None:
        return [], str(table), spec.counts
    rows = rows_of(gold).to_table(columns=["window_start", *spec.grain, spec.counts])
    return rows.sort_by([(spec.counts, "descending"), ("window_start", "ascending")]).slice(0, limit).to_pylist(), str(table), spec.counts


def counts_by_window(settings: Settings, pipeline: Pipeline, limit: int = 4) -> list[tuple[Any, int]]:
    """The newest windows of the first gold table with their total counts, oldest first."""
    spec = pipeline.gold[0]
    gold = lake_table(settings, pipeline.gold_table(spec))
    if gold is None:
        return []
    sums = rows_of(gold).to_table(columns=["window_start", spec.counts]).group_by("window_start").aggregate([(spec.counts, "sum")])
    newest = sums.sort_by([("window_start", "descending")]).slice(0, limit).to_pylist()
    return [(row["window_start"], row[f"{spec.counts}_sum"]) for row in reversed(newest)]
