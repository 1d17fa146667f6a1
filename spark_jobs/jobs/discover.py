"""Discover: enter what is new in the landing folder into the file ledger, and say whether any layer has work. Starts no JVM."""

from __future__ import annotations

import argparse
from datetime import date
from typing import Any

from spark_jobs.io.java_options import archive_options
from spark_jobs.io.ledger import discover
from spark_jobs.io.parked import due_rids
from spark_jobs.io.relay import run_continuously
from spark_jobs.io.work import is_small, pending_files, undone_decisions, unfinished_layers
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.spec.errors import ConfigurationFault


def _work(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """List the landing folder, append new files to the ledger, report what is pending."""
    only = _range(options)
    if not only and not options.sweep and (sentence := run_continuously(run.settings, run.pipeline)):
        run.say(sentence)
        return {
            "new_files": 0, "ignored": 0, "pending_files": 0, "pending_bytes": 0, "has_work": False, "small": True,
            "java_options": archive_options(run.settings, small=True), "sentence": sentence,
        }  # fmt: skip
    found = discover(run.settings, run.pipeline, run.run_id, run.clock(), sweep=True if options.sweep else None, only=only)
    for refused in found.refused:
        run.say(f"{refused} may not be listed: permission denied. What lies there waits; grant this user read access to it.")
    pending = pending_files(run.settings, run.pipeline)
    behind = unfinished_layers(run.settings, run.pipeline)
    decisions = len(undone_decisions(run.settings, run.pipeline))
    due = len(due_rids(run.settings, run.pipeline, run.clock()))
    if due and "silver" not in behind:
        behind.insert(behind.index("gold") if "gold" in behind else len(behind), "silver")
    small = is_small(run.settings, run.pipeline)
    scope = "everything" if found.swept else _scope(only, run.settings.recent_dates)
    parts = [f"Listed {scope}: {found.listed} objects, {found.new} new, {found.ignored} not logs, {found.readmitted} to be read again."]
    if behind or decisions:
        parts.append(f"To do: {', '.join(behind) or 'decisions'}; {pending.files} files with {pending.bytes:,} bytes pending.")
    else:
        parts.append("Nothing new: every layer has consumed its source.")
    if due:
        parts.append(f"The time of {due:,} parked event{'s' if due != 1 else ''} has come.")
    sentence = " ".join(parts)
    run.say(sentence)
    return {
        "new_files": found.new, "ignored": found.ignored, "pending_files": pending.files, "pending_bytes": pending.bytes,
        "has_work": bool(behind or decisions), "small": small, "java_options": archive_options(run.settings, small=small),
        "sentence": sentence,
    }  # fmt: skip


def _scope(only: tuple[date, date] | None, recent: int) -> str:
    return f"the dates {only[0]} to {only[1]}" if only else f"the newest {recent} dates of each account and region, and what has no date"


def _range(options: argparse.Namespace) -> tuple[date, date] | None:
    if not (options.first or options.last):
        return None
    try:
        return date.fromisoformat(options.first), date.fromisoformat(options.last)
    except ValueError:
        raise ConfigurationFault(f"--from={options.first} and --to={options.last}: give both as yyyy-mm-dd, as in 2024-05-01.") from None


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="first", default="", help="list only date prefixes from this date on (with --to)")
    parser.add_argument("--to", dest="last", default="", help="list only date prefixes up to this date, included")
    parser.add_argument("--sweep", action="store_true", help="list everything, whenever that was last done")


if __name__ == "__main__":
    leave(run_job("discover", _work, _add_options))
