"""Telling at once: a callback that lets the watch look now, so that a failure is told within seconds and not at the next look."""

from __future__ import annotations

import subprocess
from typing import Any

from airflow.sdk.bases.notifier import BaseNotifier

from dags.factory.commands import PROJECT, job_command

# A callback's process is ended by Airflow after 50 s; a look takes two, and some more with a mail server that does not answer.
PATIENCE_S = 40


class TellNow(BaseNotifier):
    """Makes one look at the pipeline's alert rules, by the same command line as the DAG `<pipeline>_watch`.

    What cannot be told now is told by the next look, so no callback fails for it.
    """

    def __init__(self, pipeline: str) -> None:
        super().__init__()
        self.pipeline = pipeline

    def render_template_fields(self, context: Any, jinja_env: Any = None) -> None:
        """Nothing here is a template, and of a run of `airflow dags test` the context has a DAG that renders none."""

    def notify(self, context: Any) -> None:
        command = watch_command(self.pipeline, _run_id(context))
        try:
            done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, errors="replace", timeout=PATIENCE_S)
        except (OSError, subprocess.TimeoutExpired) as fault:
            self.log.warning("The watch did not look now (%s); its next look tells.", type(fault).__name__)
            return
        for line in done.stderr.splitlines():
            self.log.info("%s", line)


def watch_command(pipeline: str, run_id: str) -> list[str]:
    return job_command("watch", pipeline=pipeline, run_id=run_id)


def _run_id(context: Any) -> str:
    run = context.get("dag_run") if hasattr(context, "get") else None
    return str(getattr(run, "run_id", "") or "callback")
