"""`assay maintain`: the maintenance job, started as the process that the daily DAG starts."""

from __future__ import annotations

import typer  # noqa: F401  # the annotations of the options are evaluated when the command is registered

from spark_jobs.cli.job_process import run_job
from spark_jobs.cli.options import AsJson, PipelineName, pipelines
from spark_jobs.cli.terminal import print_json, say


def maintain(pipeline: PipelineName = "", as_json: AsJson = False) -> None:
    """Join small files of closed days, and remove what no consumer needs any more. Runs beside the hourly job."""
    found = [run_job("maintain", one.name, quietly=as_json, again="assay maintain") for one in pipelines(pipeline)]
    if as_json:
        print_json(found[0] if len(found) == 1 else found)
    else:
        for result in found:
            say(str(result["sentence"]))
