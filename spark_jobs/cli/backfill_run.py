"""Running a backfill from the terminal: approval, its chunks as processes one after the other, and the pages that a person reads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import deque
from tempfile import TemporaryFile
from typing import Any

import typer

from spark_jobs.cli.airflow_home import PROJECT
from spark_jobs.cli.terminal import complain, inert, print_json, say
from spark_jobs.io.backfill_store import BackfillStore
from spark_jobs.spec.backfill import OPEN
from spark_jobs.spec.errors import AssayError, ConfigurationFault
from spark_jobs.spec.settings import Settings

MOST_LINES = 60  # of a job that failed: a stack trace, not Spark's whole log
_OWN_LINE = re.compile(r"\d\d:\d\d:\d\d ")  # what a job says itself; the rest is Spark's


class JobFailed(AssayError):
    """A job of a backfill failed; the text is its own sentence, the exit code its own."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


def approve(row: dict[str, Any], *, yes: bool, is_terminal: bool) -> None:
    """Ask a person; raises ConfigurationFault where nobody can answer, Exit when the answer is no."""
    if yes:
        return
    if not is_terminal:
        raise ConfigurationFault(f"Nobody is here to approve {row['backfill_id']}. Look at the plan, then say --yes; nothing was changed.")
    if not typer.confirm(f"Run {row['chunks']} chunk(s)?"):
        say(f"Nothing was changed. `assay backfill run {row['backfill_id']}` takes the plan up, `cancel` drops it.")
        raise typer.Exit(0)


def run_chunks(settings: Settings, row: dict[str, Any]) -> None:
    """Every chunk that is left, in order. Raises JobFailed; what was done stays, and a new start goes on from there."""
    name, store = row["backfill_id"], BackfillStore(settings)
    left = [chunk for chunk in store.chunks(name) if chunk["state"] in OPEN]
    for place, chunk in enumerate(left, start=1):
        number = chunk["chunk"]
        say(f"Chunk {number} ({place} of {len(left)}): {chunk['files']:,} files, {chunk['first_date']} to {chunk['last_date']}.", "bold")
        said = _job("backfill_chunk", row, "--chunk", str(number))
        say(f"  {said['sentence']}")
        if said["state"] == "cancelled":
            return
    if not left:
        say(f"{name}: nothing is left to do.")


def verify_in_process(row: dict[str, Any], *, as_json: bool = False) -> None:
    said = _job("backfill_verify", row)
    if as_json:
        print_json(said)
        return
    show_page(said["markdown"])
    say(said["sentence"])


def show_page(markdown: str) -> None:
    """Markdown as it is, each line made inert; tables of Markdown are readable as text."""
    for line in markdown.splitlines():
        print(inert(line))


def _job(job: str, row: dict[str, Any], *options: str) -> dict[str, Any]:
    """Run a job to its end, showing what it says; returns its answer. Raises JobFailed with the job's own sentence."""
    command = [
        sys.executable, "-m", f"spark_jobs.jobs.{job}", "--pipeline", row["pipeline"], "--run-id", row["run_id"],
        "--backfill", row["backfill_id"], *options,
    ]  # fmt: skip
    last: deque[str] = deque(maxlen=MOST_LINES)
    with TemporaryFile("w+", errors="replace") as answer:  # a pipe that nobody reads meanwhile could fill up
        process = subprocess.Popen(
            command, cwd=PROJECT, env=dict(os.environ), stdout=answer, stderr=subprocess.PIPE, text=True, errors="replace"
        )
        try:
            for line in process.stderr or ():
                last.append(line.rstrip())
                if _OWN_LINE.match(line):
                    complain(f"  {line.rstrip()}")
            process.wait()
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise JobFailed(f"Stopped. `assay backfill run {row['backfill_id']}` goes on from here.", 130) from None
        answer.seek(0)
        output = answer.read()
    said = _last_object(output)
    if process.returncode == 1 or said is None:  # not foreseen: all of it is wanted
        for line in last:
            complain(line)
    if process.returncode or said is None:
        raise JobFailed(
            str((said or {}).get("sentence") or f"{job} ended with exit code {process.returncode}; told above."), process.returncode or 1
        )
    return said


def _last_object(output: str) -> dict[str, Any] | None:
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    return None
