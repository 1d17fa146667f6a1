"""Decide: record what a person decided about a held or stopped batch; the next run carries it out. Starts no JVM.

One decision for one batch, whoever asks from wherever: the command line and the Airflow page come through here.
"""

from __future__ import annotations

import argparse
import uuid
from datetime import datetime
from typing import Any

import pyarrow.compute as pc

from spark_jobs.io.ops import Ops
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.report.batches import waiting_batches
from spark_jobs.report.views import LakeViews, close_to, known_tables
from spark_jobs.spec.errors import ConfigurationFault, UnknownName
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import DECISIONS

UNDECIDED = ("held", "stopped")
NEXT = {
    ("held", "release"): "the next run publishes its rows",
    ("held", "reject"): "the next run moves its rows to quarantine under the rule 'rejected'",
    ("stopped", "release"): "the next run judges it again and publishes it in spite of the verdict",
    ("stopped", "reject"): "the next run sends its rows to quarantine under the rule 'rejected'",
}


class AlreadyDecided(ConfigurationFault):
    """Somebody has decided about this batch before; a decision is final."""


def decisions_open_for(batch: dict[str, Any]) -> tuple[str, ...]:
    """What may be decided about a batch: gold is recomputed from silver, so it has no quarantine to reject to."""
    return ("release",) if batch["layer"] == "gold" else ("release", "reject")


def find_batch(views: LakeViews, table: str, batch: str) -> dict[str, Any]:
    """A batch that waits, or waited, for a decision: see `waiting_batches`. Raises UnknownName."""
    if table not in map(str, known_tables()):
        raise UnknownName(f"There is no table {table}: {close_to(table)}")
    mine = [row for row in waiting_batches(views, also_done=True) if row["table"] == table]
    found = next((row for row in mine if row["batch_id"] == batch), None)
    if found is None:
        waiting = ", ".join(row["batch_id"] for row in mine if row["state"] in UNDECIDED)
        raise UnknownName(
            f"{table} has no held or stopped batch {batch}; " + (f"waiting: {waiting}." if waiting else "none of its batches waits.")
        )
    return found


def decide(settings: Settings, table: str, batch: str, decision: str, *, who: str, note: str, at: datetime) -> dict[str, Any]:
    """Record the decision once; returns its row of `_ops.decisions` with a `sentence`. Raises UnknownName, AlreadyDecided."""
    found = find_batch(LakeViews(settings), table, batch)
    if found["state"] not in UNDECIDED:
        raise _already(table, batch, found["who"], found["state"])
    if decision not in decisions_open_for(found):
        raise ConfigurationFault(
            f"{table} is recomputed from silver, so it has no quarantine: release {batch}, or mend silver and run again."
        )
    row = {
        "decision_id": uuid.uuid4().hex, "pipeline": found["pipeline"], "table": table, "batch_id": batch, "decision": decision,
        "who": who, "note": note, "decided_at": at,
    }  # fmt: skip
    same = (pc.field("table") == table) & (pc.field("batch_id") == batch)
    for quicker in Ops(settings).append_unless(DECISIONS, [row], same):
        raise _already(table, batch, quicker["who"], f"{quicker['decision']}d" if quicker["decision"] == "release" else "rejected")
    sentence = f"{table} {batch} ({found['rows'] or 0:,} rows, {found['state']}): {NEXT[found['state'], decision]}. Decided by {who}."
    return row | {"sentence": sentence}


def _already(table: str, batch: str, who: str | None, state: str) -> AlreadyDecided:
    by = f" by {who}" if who else ""
    return AlreadyDecided(f"{table} {batch} was already decided{by}: {state}. A decision is final.")


def _work(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """Record a decision. Said by somebody else before, that is the answer (`is_recorded` false), not a fault: it is decided."""
    try:
        said = decide(
            run.settings, options.table, options.batch, options.decision, who=options.who, note=options.note, at=run.clock()
        ) | {"is_recorded": True}  # fmt: skip
    except AlreadyDecided as before:
        said = {"is_recorded": False, "sentence": str(before)}
    run.say(said["sentence"])
    return said


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--table", required=True, help="full name, e.g. silver.cloudtrail_events")
    parser.add_argument("--batch", required=True, help="batch id, e.g. v1-00000003")
    parser.add_argument("--decision", required=True, choices=("release", "reject"))
    parser.add_argument("--who", required=True, help="name under which the decision is recorded")
    parser.add_argument("--note", default="", help="why; kept with the decision")


if __name__ == "__main__":
    leave(run_job("decide", _work, _add_options))
