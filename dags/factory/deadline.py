"""Freshness targets as deadlines of runs: a run that is not done when its tables should be fresh is told while it still is at work."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from dags.factory.commands import PROJECT
from dags.factory.failure import SayFailure
from dags.factory.notifier import PATIENCE_S, watch_command
from spark_jobs.spec.moments import words
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import TableId

SHORTEST = timedelta(minutes=15)  # no deadline that a healthy run on a busy machine would miss

_log = logging.getLogger(__name__)


def deadlines(pipeline: Pipeline, tables: Sequence[TableId], every: timedelta) -> list[DeadlineAlert]:
    """A deadline for each freshness target among the tables that a DAG brings up every so often.

    What lands just after a run has begun waits for the next one, so of the target the run itself has what is left after that wait; where
    runs are about as far apart as the target, a quarter of it. None in `airflow dags test`, which nobody waits for.
    """
    if sys.argv[1:3] == ["dags", "test"]:  # Airflow 3.3.2 looks for their rows there when the run succeeds, has made none, and fails
        return []
    targets: dict[timedelta, list[str]] = defaultdict(list)
    for table in tables:
        targets[pipeline.freshness_of(table)].append(str(table))
    return [
        DeadlineAlert(
            name=f"fresh within {words(target)}",
            reference=DeadlineReference.DAGRUN_QUEUED_AT,
            interval=target - every if target - every >= SHORTEST else target / 4,
            callback=AsyncCallback(tell_deadline, kwargs={"pipeline": pipeline.name, "tables": names, "target": words(target)}),
        )
        for target, names in sorted(targets.items())
    ]


async def tell_deadline(pipeline: str, tables: list[str], target: str, context: Any = None) -> str:
    """Called by the triggerer when a deadline is missed: records it and lets the watch tell it now. Returns what was recorded."""
    run = (context or {}).get("dag_run") or {}
    dag_id, run_id = str(run.get("dag_id") or f"{pipeline}_?"), str(run.get("dag_run_id") or run.get("run_id") or "?")
    due = str(((context or {}).get("deadline") or {}).get("deadline_time") or "its time")
    sentence = f"Run {run_id} of {dag_id} was not done at {due}: {', '.join(tables)} should be fresh within {target}."
    SayFailure(load_settings().home.absolute()).of_deadline(dag_id, run_id, sentence)
    process = await asyncio.create_subprocess_exec(
        *watch_command(pipeline, run_id), cwd=PROJECT, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    try:
        _, said = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        _log.info("%s", said.decode("utf-8", "replace").strip())
    except TimeoutError:
        process.kill()
        _log.warning("The watch did not end within %s s; its next look tells.", PATIENCE_S)
    return sentence
