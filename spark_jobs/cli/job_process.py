"""A job started from the command line as the process that a DAG starts: its own lines are shown as they come, Spark's are not."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from tempfile import TemporaryFile
from typing import Any

from spark_jobs.cli.airflow_home import PROJECT
from spark_jobs.cli.terminal import complain
from spark_jobs.spec.errors import AssayError
from spark_jobs.spec.guarding import guarded_by

MOST_LINES = 60  # of a job that failed unforeseen: a stack trace, not Spark's whole log
_OWN_LINE = re.compile(r"\d\d:\d\d:\d\d ")  # what a job says itself; the rest is Spark's


class JobFailed(AssayError):
    """A job ended with a fault: the text is its own sentence, the exit code its own. `said` is its answer, {} where it gave none."""

    def __init__(self, sentence: str, exit_code: int, said: dict[str, Any] | None = None) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
        self.said = said or {}


def run_job(job: str, pipeline: str, options: Sequence[str] = (), *, quietly: bool = False, again: str = "") -> dict[str, Any]:
    """Run `spark_jobs.jobs.<job>` to its end; returns its answer. Raises JobFailed.

    `quietly`: show none of its lines. `again`: what to type to go on after it was stopped.
    """
    python = os.environ.get("ASSAY_PYTHON") or sys.executable
    command = [python, "-m", f"spark_jobs.jobs.{job}", "--pipeline", pipeline, *options]
    last: deque[str] = deque(maxlen=MOST_LINES)
    with TemporaryFile("w+", errors="replace") as answer:  # a pipe that nobody reads meanwhile could fill up
        process = subprocess.Popen(
            command, cwd=PROJECT, env={**os.environ, **guarded_by(os.getpid())}, stdout=answer,
            stderr=subprocess.PIPE, text=True, errors="replace",
        )  # fmt: skip
        try:
            for line in process.stderr or ():
                last.append(line.rstrip())
                if _OWN_LINE.match(line) and not quietly:
                    complain(f"  {line.rstrip()}")
            process.wait()
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise JobFailed(f"Stopped; what was published is whole. `{again or 'The same command'}` goes on from here.", 130) from None
        answer.seek(0)
        said = _last_object(answer.read())
    code = process.returncode
    if code < 0:
        name = signal.Signals(-code).name
        raise JobFailed(f"{job} was killed ({name}); what was published is whole. Go on with `{again or 'the same command'}`.", 128 - code)
    if code == 1 or said is None:  # not foreseen: all of it is wanted
        for line in last:
            complain(line)
    if code or said is None:
        sentence = (said or {}).get("sentence") or f"{job} ended with exit code {code} and without an answer; its last lines stand above."
        raise JobFailed(str(sentence), code or 1, said)
    return said


def _last_object(output: str) -> dict[str, Any] | None:
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    return None
