"""`assay maintain`: the maintenance job, started as the process that the daily DAG starts."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import typer

from spark_jobs.cli.options import AsJson, PipelineName, pipelines
from spark_jobs.cli.terminal import print_json, say


def maintain(pipeline: PipelineName = "", as_json: AsJson = False) -> None:
    """Join small files of closed days, and remove what no consumer needs any more. Runs beside the hourly job."""
    found = [_run(one.name, quietly=as_json) for one in pipelines(pipeline)]
    if as_json:
        print_json(found[0] if len(found) == 1 else found)


def _run(pipeline: str, *, quietly: bool) -> dict[str, Any]:
    """The job's result; its log lines go to standard error. Ends the command with the job's exit code when it failed."""
    command = [sys.executable, "-m", "spark_jobs.jobs.maintain", "--pipeline", pipeline]
    job = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if quietly else None, text=True)
    result: dict[str, Any] = json.loads((job.stdout.strip().splitlines() or ["{}"])[-1])
    if job.returncode:
        if quietly:
            print_json(result)
        raise typer.Exit(job.returncode)
    if not quietly:
        say(str(result["sentence"]))
    return result
