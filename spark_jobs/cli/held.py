"""`assay held`: batches that a gate held or stopped, and what a person decides about them."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from spark_jobs.cli.options import AsJson, Limit, PipelineName
from spark_jobs.cli.terminal import print_json, print_table, say
from spark_jobs.spec.settings import Settings, load_settings
from spark_jobs.spec.tables import VERDICTS, TableId

app = typer.Typer(invoke_without_command=True, help="Batches that a gate held or stopped: list, show, release, reject.")

SHOWN = {
    "table": "table", "batch_id": "batch", "state": "state", "rows": "rows", "evaluated_at": "judged (UTC)", "sentence": "verdict",
    "who": "decided by", "note": "note",
}  # fmt: skip
CHECKS = {
    "expectation": "expectation",
    "column": "column",
    "severity": "severity",
    "observed": "observed",
    "unexpected_count": "unexpected",
    "sample": "sample",
}
COLOURS = {"held": "yellow", "stopped": "bold red", "released": "green", "rejected": "green"}
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="Full name, e.g. silver.cloudtrail_events.")]
BatchId = Annotated[str, typer.Argument(metavar="BATCH", help="Batch id, e.g. v1-00000003.")]
Who = Annotated[str, typer.Option("--who", help="Name under which the decision is recorded.", show_default="your login name")]
Note = Annotated[str, typer.Option("--note", help="Why; kept with the decision.")]


@app.callback()
def held(context: typer.Context) -> None:
    """Without a subcommand: list the batches that wait."""
    if context.invoked_subcommand is None:
        list_held()


@app.command("list")
def list_held(
    pipeline: PipelineName = "",
    everything: Annotated[bool, typer.Option("--all", help="Also those whose decision was carried out.")] = False,
    as_json: AsJson = False,
) -> None:
    """Batches that wait for a decision, or for the next run to carry one out."""
    from spark_jobs.report.batches import waiting_batches
    from spark_jobs.report.views import LakeViews

    rows = waiting_batches(LakeViews(load_settings()), pipeline=pipeline, also_done=everything)
    if as_json:
        print_json(rows)
    elif rows:
        print_table(rows, SHOWN, styles=COLOURS)
        say("`assay held show TABLE BATCH` says why; `release` publishes it, `reject` sends it to quarantine.")
    else:
        say("No batch is held or stopped.")


@app.command("show")
def show(table: TableName, batch: BatchId, limit: Limit = 5, as_json: AsJson = False) -> None:
    """One batch: the expectations it failed, and some of its rows (they are data: not masked)."""
    from spark_jobs.jobs.decide import NEXT, UNDECIDED, decisions_open_for, find_batch
    from spark_jobs.report.views import LakeViews

    settings = load_settings()
    views = LakeViews(settings)
    found = find_batch(views, table, batch)
    sql = f"SELECT * FROM {VERDICTS} WHERE verdict_id = $id AND NOT success ORDER BY severity, expectation"
    failed = views.rows(f"{sql}", {"id": found["verdict_id"]})
    side = TableId.parse(table).side("held")
    sample = views.rows(f"SELECT * FROM {side} WHERE _batch_id = $batch LIMIT {limit}", {"batch": batch}) if views.exists(side) else []
    if as_json:
        print_json(found | {"failed": failed, "sample": sample})
        return
    say(f"{table} {batch}: {found['state']}, {found['rows']:,} rows, judged in run {found['run_id']}.")
    say(found["sentence"])
    print_table(failed, CHECKS)
    for row in sample:
        say(" · ".join(f"{name}={value}" for name, value in row.items() if value is not None))
    if found["state"] in UNDECIDED:
        say(" ".join(f"{decision.capitalize()}: {NEXT[found['state'], decision]}." for decision in decisions_open_for(found)))


@app.command("release")
def release(table: TableName, batch: BatchId, who: Who = "", note: Note = "", as_json: AsJson = False) -> None:
    """Publish a held or stopped batch in spite of its verdict; the next run does it."""
    _decide(load_settings(), table, batch, "release", who, note, as_json)


@app.command("reject")
def reject(table: TableName, batch: BatchId, who: Who = "", note: Note = "", as_json: AsJson = False) -> None:
    """Send a held or stopped batch to quarantine; the next run does it."""
    _decide(load_settings(), table, batch, "reject", who, note, as_json)


def _decide(settings: Settings, table: str, batch: str, decision: str, who: str, note: str, as_json: bool) -> None:
    from spark_jobs.jobs.decide import decide
    from spark_jobs.jobs.run import utc_now

    row = decide(settings, table, batch, decision, who=who or _login(), note=note, at=utc_now())
    if as_json:
        print_json(row)
    else:
        say(row["sentence"])


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in many containers
        return "unknown"
