"""Running a backfill from the terminal: approval, its chunks as processes one after the other, and the pages that a person reads."""

from __future__ import annotations

from typing import Any

import typer

from spark_jobs.cli.job_process import run_job
from spark_jobs.cli.terminal import inert, print_json, say
from spark_jobs.io.backfill_store import BackfillStore
from spark_jobs.spec.backfill import OPEN
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.settings import Settings


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
    words = ["--run-id", row["run_id"], "--backfill", row["backfill_id"], *options]
    return run_job(job, row["pipeline"], words, again=f"assay backfill run {row['backfill_id']}")
