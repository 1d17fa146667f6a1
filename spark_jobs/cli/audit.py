"""`assay audit`: gold's cells against silver. The one question that is answered by Spark: it starts the job as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Annotated, Any

import typer

from spark_jobs.cli.options import AsJson, PipelineName, pipelines
from spark_jobs.cli.terminal import print_json, print_table, say
from spark_jobs.spec.errors import AssayError

TABLES = {
    "table": "table", "mode": "mode", "cells": "cells compared", "cells_total": "cells in gold", "mismatched": "differ",
    "silver_version": "silver version", "gold_version": "gold version",
}  # fmt: skip
CELLS = {"table": "table", "cell": "cell", "column": "column", "gold": "gold says", "silver": "silver says"}


class AuditFailed(AssayError):
    """The job ended with its own fault; its text is the job's sentence."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


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
    found = [_run(one.name, options, quietly=as_json) for one in pipelines(pipeline)]
    if as_json:
        print_json(found[0] if len(found) == 1 else found)
    else:
        for one in found:
            _show(one)
    if wrong := [one["sentence"] for one in found if not one["is_equal"]]:
        raise AuditFailed(" ".join(wrong), 5)


def _run(pipeline: str, options: list[str], *, quietly: bool) -> dict[str, Any]:
    """The job's answer; its log lines go to standard error. Raises AuditFailed when it ended without one."""
    command = [sys.executable, "-m", "spark_jobs.jobs.audit", "--pipeline", pipeline, *options]
    job = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if quietly else None, text=True)
    lines = [line for line in job.stdout.splitlines() if line.startswith("{")]
    said: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    if "is_equal" not in said:
        raise AuditFailed(said.get("sentence") or f"The audit ended with exit code {job.returncode}, without a word.", job.returncode or 1)
    return said


def _show(found: dict[str, Any]) -> None:
    if found["tables"]:
        print_table(found["tables"], TABLES)
    cells = [_cell(table["table"], one) for table in found["tables"] for one in table["mismatches"]]
    if cells:
        print_table(cells, CELLS)
    else:
        say(found["sentence"], style="green")


def _cell(table: str, one: dict[str, Any]) -> dict[str, Any]:
    key = ", ".join(f"{name} {value}" for name, value in one.items() if name not in ("column", "gold", "silver"))
    return {"table": table, "cell": key, "column": one["column"], "gold": str(one["gold"]), "silver": str(one["silver"])}
