"""Waiting: which batches a gate held or stopped and nobody has decided about; of one of them, all that a person needs to decide. No JVM."""

from __future__ import annotations

import argparse
from typing import Any

from spark_jobs.io.java_options import archive_options
from spark_jobs.jobs.decide import NEXT, UNDECIDED, decisions_open_for, find_batch
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.report.batches import waiting_batches
from spark_jobs.report.held_batch import describe_batch
from spark_jobs.report.views import LakeViews


def _work(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """List the batches that wait for a decision; with --table and --batch, say all of that one."""
    views = LakeViews(run.settings)
    said = _one(run, views, options.table, options.batch) if options.batch else _all(run, views)
    run.say(said["sentence"])
    return said


def _all(run: Run, views: LakeViews) -> dict[str, Any]:
    rows = [row for row in waiting_batches(views, pipeline=run.pipeline.name) if row["state"] in UNDECIDED]
    batches = [{name: row[name] for name in ("table", "batch_id", "state", "rows", "sentence")} for row in rows]
    named = ", ".join(f"{row['table']} {row['batch_id']} ({row['state']})" for row in rows)
    return {"batches": batches, "sentence": f"Waiting for a decision: {named}." if named else "No batch waits for a decision."}


def _one(run: Run, views: LakeViews, table: str, batch: str) -> dict[str, Any]:
    found = find_batch(views, table, batch)
    is_waiting = found["state"] in UNDECIDED
    sentence = f"{table} {batch} is {found['state']}" + (f", decided by {found['who']}." if found["who"] else ".")
    options = decisions_open_for(found) if is_waiting else ()
    choices = {option: NEXT[found["state"], option].replace("the next run", "this run") for option in options}
    return {
        "is_waiting": is_waiting, "state": found["state"], "options": list(options), "sentence": sentence,
        "subject": f"Publish {found['rows'] or 0:,} rows of {table} in spite of the gate? ({found['state']} batch {batch})",
        "markdown": describe_batch(views, found, choices),
        "java_options": archive_options(run.settings, small=(found["rows"] or 0) < SMALL_ROWS),
    }  # fmt: skip


# Held rows are written once; up to this many, start-up is what the driver costs.
SMALL_ROWS = 100_000


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--table", default="", help="full name, e.g. silver.cloudtrail_events")
    parser.add_argument("--batch", default="", help="batch id, e.g. v1-00000003")


if __name__ == "__main__":
    leave(run_job("waiting", _work, _add_options))
