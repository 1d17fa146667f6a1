"""`assay audit`: gold's cells against silver. The one question that is answered by Spark: it starts the job as a process."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from spark_jobs.cli.job_process import JobFailed, run_job
from spark_jobs.cli.options import AsJson, PipelineName, pipelines
from spark_jobs.cli.terminal import print_json, print_table, say
from spark_jobs.spec.errors import BooksUnbalanced

TABLES = {
    "table": "table", "mode": "mode", "cells": "cells compared", "cells_total": "cells in gold", "mismatched": "differ",
    "silver_version": "silver version", "gold_version": "gold version",
}  # fmt: skip
CELLS = {"table": "table", "cell": "cell", "column": "column", "gold": "gold says", "silver": "silver says"}


def audit(
    full: Annotated[bool, typer.Option("--full", help="Compare every cell, not a sample.")] = False,
    cells: Annotated[int, typer.Option("--cells", min=1, help="Cells to draw per table.")] = 20,
    table: Annotated[str, typer.Option("--table", help="Only this gold table.", show_default="all")] = "",
    first: Annotated[str, typer.Option("--from", help="First day (UTC), yyyy-mm-dd.", show_default="all")] = "",
    last: Annotated[str, typer.Option("--to", help="Last day.", show_default="all")] = "",
    pipeline: PipelineName = "",
    as_json: AsJson = False,
) -> None:
    """Compute cells of gold again from silver at the version each table names, and compare. Needs a JVM: allow half a minute.

    Ends with exit code 5 when a cell differs, and names it.
    """
    options = ["--full"] if full else ["--cells", str(cells)]
    for name, value in (("--table", table), ("--from", first), ("--to", last)):
        options += [name, value] if value else []
    found = [_audit(one.name, options, quietly=as_json) for one in pipelines(pipeline)]
    if as_json:
        print_json(found[0] if len(found) == 1 else found)
    else:
        for one in found:
            _show(one)
    if wrong := [one["sentence"] for one in found if not one["is_equal"]]:
        raise BooksUnbalanced(" ".join(wrong))


def _audit(pipeline: str, options: list[str], *, quietly: bool) -> dict[str, Any]:
    """The job's answer, also when cells differ: then it ends with the exit code of books that do not balance."""
    try:
        return run_job("audit", pipeline, options, quietly=quietly, again="assay audit")
    except JobFailed as ended:
        if "is_equal" in ended.said:
            return ended.said
        raise


def _show(found: dict[str, Any]) -> None:
    if found["tables"]:
        print_table(found["tables"], TABLES)
    cells = [_cell(table["table"], one) for table in found["tables"] for one in table["mismatches"]]
    if cells:
        print_table(cells, CELLS)
    else:
        say(found["sentence"], style="green" if any(table["cells"] for table in found["tables"]) else "yellow")


def _cell(table: str, one: dict[str, Any]) -> dict[str, Any]:
    key = ", ".join(f"{name} {value}" for name, value in one.items() if name not in ("column", "gold", "silver"))
    return {"table": table, "cell": key, "column": one["column"], "gold": str(one["gold"]), "silver": str(one["silver"])}
