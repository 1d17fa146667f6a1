"""`assay books`: do the numbers add up? Every batch's equation, the totals, and the tables counted anew."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from spark_jobs.cli.options import AsJson, Limit, PipelineName, RunId
from spark_jobs.cli.terminal import print_json, print_table, say
from spark_jobs.spec.errors import BooksUnbalanced
from spark_jobs.spec.settings import load_settings

SHOWN = {
    "table": "table", "batch_id": "batch", "equation": "equation", "balanced": "balanced", "outcome": "gate", "decision": "decision",
    "finished_at": "finished (UTC)",
}  # fmt: skip
TOTALS = {"table": "total of", "batches": "batches", "equation": "equation", "balanced": "balanced"}
COUNTED = {"table": "counted", "rows": "rows in the table", "expected": "rows in the books", "balanced": "equal"}
COLOURS = {"yes": "green", "no": "bold red", "NO": "bold red", "hold": "yellow", "warn": "yellow"}


def books(
    pipeline: PipelineName = "",
    table: Annotated[str, typer.Option(help="Only this table, e.g. silver.cloudtrail_events.", show_default="all")] = "",
    run_id: RunId = "",
    limit: Limit = 30,
    count: Annotated[bool, typer.Option("--count", help="Also count the rows of the tables and compare them with the books.")] = False,
    as_json: AsJson = False,
) -> None:
    """The balanced equations, per batch and in total. Ends with exit code 5 when a record is unaccounted for."""
    from spark_jobs.report.balance import balance

    found = balance(load_settings(), pipeline=pipeline, table=table, run_id=run_id, count_rows=count)
    if as_json:
        print_json(found)
    else:
        _show(found, limit)
    if not found["is_balanced"]:
        raise BooksUnbalanced(found["sentence"])


def _show(found: dict[str, Any], limit: int) -> None:
    if not found["batches"]:
        say(found["sentence"])
        return
    rows = found["batches"][-limit:]
    print_table([_row(row) for row in rows], SHOWN, styles=COLOURS)
    if len(found["batches"]) > len(rows):
        say(f"The newest {len(rows):,} of {len(found['batches']):,} batches; --limit shows more. The totals are of all.")
    print_table([_row(row) for row in found["totals"]], TOTALS, styles=COLOURS)
    if found["counted"]:
        print_table([_row(row) for row in found["counted"]], COUNTED, styles=COLOURS)
    if found["is_balanced"]:
        say(found["sentence"], style="green")


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"balanced": "yes" if row["is_balanced"] else "NO"}
