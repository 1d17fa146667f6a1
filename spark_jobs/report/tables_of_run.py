"""What a run did to each table: its batches and books, its expectations, and what it quarantined."""

from __future__ import annotations

import json
from typing import Any

from spark_jobs.report.batches import books_of, total_books
from spark_jobs.report.masking import mask_record
from spark_jobs.report.views import LakeViews, in_list
from spark_jobs.spec.gates import OUTCOMES
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.tables import TableId

SAMPLES = 3  # of each quarantine rule
FAILURES = 20  # batches named for one failed expectation

_SEVERITIES = ("critical", "warning", "info")


def tables_of_run(views: LakeViews, pipeline: Pipeline, run_id: str) -> list[dict[str, Any]]:
    """One dict per table that the run judged or wrote, in data order.

    Keys: table, layer, outcome, sentences, batches (books and equation), books (their total), equation, is_balanced, checks, quarantine,
    duplicates. `outcome` is the strictest of its batches; a batch released by a person counts as `warn`.
    """
    asked = {"pipeline": pipeline.name, "run_id": run_id}
    books = views.rows("SELECT * FROM _ops.books WHERE pipeline = $pipeline AND run_id = $run_id ORDER BY finished_at, batch_id", asked)
    # A task that was retried judges its batch again in the same run: the newest verdict counts.
    verdicts = views.rows(
        "SELECT * FROM _ops.verdicts WHERE pipeline = $pipeline AND run_id = $run_id AND layer <> 'tables' "
        'QUALIFY evaluated_at = max(evaluated_at) OVER (PARTITION BY "table", batch_id) ORDER BY batch_id, expectation, "column"',
        asked,
    )
    found = []
    for table in pipeline.all_tables:
        mine = [row for row in books if row["table"] == str(table)]
        judged = [row for row in verdicts if row["table"] == str(table)]
        if mine or judged:
            found.append(_table(views, table, mine, judged))
    return found


def _table(views: LakeViews, table: TableId, books: list[dict[str, Any]], verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    total = total_books(books, of_one_run=True)
    booked = {row["batch_id"] for row in books}
    judged = {row["batch_id"]: row for row in verdicts}
    outcomes = [_outcome(row) for row in books] + [row["outcome"] for batch, row in judged.items() if batch not in booked]
    return {
        "table": str(table),
        "layer": table.layer,
        "outcome": max(outcomes, key=OUTCOMES.index),
        "sentences": sorted({row["sentence"] for row in judged.values() if row["outcome"] != "pass"}),
        "batches": [_batch(row) for row in books],
        "stopped": sorted(batch for batch, row in judged.items() if batch not in booked and row["outcome"] == "stop"),
        "books": total.terms(),
        "equation": total.equation() if books else None,
        "is_balanced": all(books_of(row).is_balanced and bool(row["is_balanced"]) for row in books),
        "checks": _checks(verdicts),
        "quarantine": _quarantine(views, table, sorted(booked)) if total.quarantined else [],
        "duplicates": _duplicates(views, table, sorted(booked)) if total.duplicate else None,
    }


def _outcome(row: dict[str, Any]) -> str:
    """A batch that a person decided about is no longer stopped or held: it is done, and said."""
    return "warn" if row["decision"] else row["outcome"]


def _batch(row: dict[str, Any]) -> dict[str, Any]:
    names = ("batch_id", "outcome", "decision", "source_version", "target_version", "started_at", "finished_at")
    books = books_of(row)
    seconds = round((row["finished_at"] - row["started_at"]).total_seconds(), 1) if row["started_at"] and row["finished_at"] else None
    balanced = books.is_balanced and bool(row["is_balanced"])
    return {name: row[name] for name in names} | books.terms() | {"equation": books.equation(), "is_balanced": balanced, "seconds": seconds}


def _checks(verdicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The expectations, each over all batches of the run: failed ones first, then by severity. `observed` is of the last failed batch."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in verdicts:
        if row["expectation"]:
            groups.setdefault((row["expectation"], row["column"] or "", row["expected"] or ""), []).append(row)
    checks = []
    for (expectation, column, expected), rows in groups.items():
        failed = [row for row in rows if not row["success"]]
        told = (failed or rows)[-1]
        checks.append(
            {
                "expectation": expectation,
                "column": column,
                "expected": expected,
                "severity": told["severity"],
                "success": not failed,
                "batches": len(rows),
                "failed_batches": [row["batch_id"] for row in failed][:FAILURES],
                "observed": told["observed"],
                "element_count": sum(row["element_count"] or 0 for row in rows),
                "unexpected_count": sum(row["unexpected_count"] or 0 for row in rows),
                "samples": json.loads(told["sample"] or "[]") if failed else [],
                "exception": told["exception"],
            }
        )
    severity = {name: place for place, name in enumerate(_SEVERITIES)}
    return sorted(
        checks,
        key=lambda check: (check["success"], severity.get(str(check["severity"]), 9), str(check["expectation"]), str(check["column"])),
    )


def _quarantine(views: LakeViews, table: TableId, batches: list[str]) -> list[dict[str, Any]]:
    """Per rule: count, one reason, and a few masked samples with their `_rid` and file."""
    side = table.side("quarantine")
    if not views.exists(side):
        return []
    within = f"FROM {side} WHERE _batch_id IN ({in_list(batches)})"
    raw = "raw_bytes" if table.layer == "bronze" else "raw"
    counts = "count(*) AS count, min(reason) AS reason, count(DISTINCT reason) AS reasons"
    rules = views.rows(f"SELECT rule, {counts} {within} GROUP BY rule ORDER BY count DESC, rule")
    place = "_source_file, _record_index"
    samples = views.rows(
        f"SELECT rule, reason, _rid, {place}, {raw} AS raw {within} "
        f"QUALIFY row_number() OVER (PARTITION BY rule ORDER BY {place}) <= {SAMPLES} ORDER BY rule, {place}"
    )
    for rule in rules:
        rule["samples"] = [_sample(row) for row in samples if row["rule"] == rule["rule"]]
    return rules


def _sample(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "rid": row["_rid"],
        "file": row["_source_file"].rsplit("/", 1)[-1],
        "record_index": row["_record_index"],
        "reason": row["reason"],
        "masked": mask_record(row["raw"]),
    }


def _duplicates(views: LakeViews, table: TableId, batches: list[str]) -> dict[str, int] | None:
    side = table.side("duplicates")
    if not views.exists(side):
        return None
    counted = views.rows(
        f"SELECT count(*) AS count, count(*) FILTER (is_conflicting) AS conflicting FROM {side} WHERE _batch_id IN ({in_list(batches)})"
    )
    return counted[0]
