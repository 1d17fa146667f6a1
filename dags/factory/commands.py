"""The command lines by which a DAG meets the jobs. Each job prints one JSON object as its last line on stdout."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_jobs.spec.guarding import guarded_by

PROJECT = Path(__file__).resolve().parents[2]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said: its exit code and the JSON object of its last line."""

    exit_code: int
    said: dict[str, Any]

    @property
    def sentence(self) -> str:
        return str(self.said.get("sentence") or "")


class CommandFailed(RuntimeError):
    """A command ended without an answer; the text is its last line on stderr, which is a sentence for a foreseen fault."""


def job_command(job: str, *, pipeline: str, run_id: str, options: Sequence[str] = ()) -> list[str]:
    """`<python> -m spark_jobs.jobs.<job> --pipeline … --run-id … [options]`; ASSAY_PYTHON names the jobs' own interpreter."""
    python = os.environ.get("ASSAY_PYTHON") or sys.executable
    return [python, "-m", f"spark_jobs.jobs.{job}", "--pipeline", pipeline, "--run-id", run_id, *options]


def ask(command: Sequence[str]) -> Answer:
    """Run a command, pass its log lines on as they come, and return its answer; raises CommandFailed when there is none."""
    _log.info("Running %s", " ".join(command))
    with subprocess.Popen(
        command,
        cwd=PROJECT,
        env={**os.environ, **guarded_task()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip())
            _log.info("%s", line.rstrip())
    said = last_answer(lines)
    if said is None:
        last = next((line for line in reversed(lines) if line), "it said nothing")
        raise CommandFailed(f"{command[2]} ended with exit code {process.returncode}: {last}")
    return Answer(process.returncode, said)


def guarded_task() -> dict[str, str]:
    """What makes a job end with its Airflow task: with the process that runs the task, and with its parent, which supervises it.

    When that parent is gone, nobody tells Airflow that the task lives; it will be tried again, and must not find itself at work.
    """
    return guarded_by(os.getpid(), os.getppid())


def last_answer(lines: Sequence[str]) -> dict[str, Any] | None:
    """The last line that is a JSON object; a driver's shutdown can write lines after it."""
    return next((found for line in reversed(lines) if (found := _json_object(line)) is not None), None)


def _json_object(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
