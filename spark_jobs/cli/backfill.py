"""`assay backfill`: plan history's way into the lake, approve it, run it chunk by chunk, look at it, cancel it, verify it."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated, Any

import typer

from spark_jobs.cli.options import AsJson
from spark_jobs.cli.terminal import print_json, print_table, say
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.settings import load_settings

app = typer.Typer(no_args_is_help=True, help="History: plan, run, status, cancel, verify. Live runs go on meanwhile, and go first.")

Pipeline = Annotated[str, typer.Option("--pipeline", "-p", help="Of this pipeline.")]
What = Annotated[str, typer.Option(help="load (historical files), replay (bronze through today's silver), recompute (gold).")]
From = Annotated[str, typer.Option("--from", help="First date of the folders, yyyy-mm-dd.")]
To = Annotated[str, typer.Option("--to", help="Last date, included.")]
Accounts = Annotated[str, typer.Option(help="Only these accounts, separated by commas.", show_default="all")]
Regions = Annotated[str, typer.Option(help="Only these regions, separated by commas.", show_default="all")]
Source = Annotated[str, typer.Option(help="Folder or URL prefix where the history lies.", show_default="the landing folder")]
ChunkFiles = Annotated[int, typer.Option(help="Files per chunk at most.", show_default="2048")]
NewestFirst = Annotated[bool, typer.Option("--newest-first", help="The newest dates first.")]
Backfill = Annotated[str, typer.Argument(help="The id of the backfill, as `plan` and `status` show it.")]

LISTED = {
    "backfill_id": "backfill", "state": "state", "what": "what", "from_date": "from", "to_date": "to", "chunks": "chunks", "left": "left",
    "files": "files", "bytes": "bytes", "predicted_s": "predicted s", "actual_s": "actual s", "who": "by", "at": "since (UTC)",
}  # fmt: skip
CHUNKS = {
    "chunk": "chunk", "state": "state", "first_date": "from", "last_date": "to", "files": "files", "bytes": "bytes", "wall_s": "s",
    "cpu_s": "CPU-s", "claimed_by": "by", "at": "since (UTC)",
}  # fmt: skip
COLOURS = {"done": "green", "verified": "green", "stopped": "red", "unequal": "red", "cancelled": "dim", "claimed": "yellow"}


@app.command("plan")
def plan(
    first: From, last: To, what: What = "load", accounts: Accounts = "", regions: Regions = "", source: Source = "",
    chunk_files: ChunkFiles = 0, newest_first: NewestFirst = False, pipeline: Pipeline = "cloudtrail", as_json: AsJson = False,
) -> None:  # fmt: skip
    """Say what a backfill would read, change and cost. Nothing is read into the lake."""
    _show(_planned(pipeline, what, first, last, accounts, regions, source, chunk_files, newest_first), as_json)


@app.command("run")
def run(
    backfill_id: Annotated[str, typer.Argument(help="A planned backfill, or one that was left unfinished.")] = "",
    first: From = "", last: To = "", what: What = "load", accounts: Accounts = "", regions: Regions = "", source: Source = "",
    chunk_files: ChunkFiles = 0, newest_first: NewestFirst = False, pipeline: Pipeline = "cloudtrail",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for approval.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and stop.")] = False,
    check: Annotated[bool, typer.Option("--verify/--no-verify", help="Compare gold with a batch over silver at the end.")] = True,
) -> None:  # fmt: skip
    """Plan (or take up a plan), ask for approval, and do one chunk after the other. Run again after a kill, it goes on."""
    from spark_jobs.cli.backfill_run import approve, run_chunks, verify_in_process
    from spark_jobs.io.backfill_store import BackfillStore

    if bool(backfill_id) == bool(first or last):
        raise ConfigurationFault("Name a planned backfill, or say --from and --to for a new one.")
    settings = load_settings()
    row = (
        BackfillStore(settings).get(backfill_id)
        if backfill_id
        else _planned(pipeline, what, first, last, accounts, regions, source, chunk_files, newest_first)
    )
    _show(row, as_json=False)
    if dry_run or not row["chunks"]:
        return
    if row["state"] == "planned":
        approve(row, yes=yes, is_terminal=sys.stdin.isatty())
    run_chunks(settings, row)
    if check:
        verify_in_process(row)


@app.command("status")
def status(backfill_id: Annotated[str, typer.Argument(help="Show the chunks of this one.")] = "", as_json: AsJson = False) -> None:
    """Every backfill, or the chunks of one: state, who is at work, since when, what is left."""
    from spark_jobs.io.backfill_store import BackfillStore
    from spark_jobs.spec.backfill import OPEN

    store = BackfillStore(load_settings())
    if not backfill_id:
        rows = [row | {"left": sum(chunk["state"] in OPEN for chunk in store.chunks(row["backfill_id"]))} for row in store.all()]
        if as_json:
            print_json([{name: value for name, value in row.items() if name != "plan"} for row in rows])
        elif rows:
            print_table(rows, LISTED, styles=COLOURS)
        else:
            say("No backfill was planned yet; `assay backfill plan` makes one.")
        return
    row = store.get(backfill_id)
    chunks = [{name: value for name, value in chunk.items() if name != "content"} for chunk in store.chunks(backfill_id)]
    for chunk in chunks:
        if chunk["state"] in ("claimed", "admitted") and store.worker(backfill_id, chunk["chunk"]) is None:
            chunk["claimed_by"] = f"nobody: {chunk['claimed_by']} is gone"
    left = [chunk for chunk in chunks if chunk["state"] in OPEN]
    if as_json:
        print_json({**{name: value for name, value in row.items() if name != "plan"}, "left": len(left), "chunk_states": chunks})
        return
    print_table(chunks, CHUNKS, styles=COLOURS)
    files = sum(chunk["files"] for chunk in left)
    rest = f"{len(left)} of {len(chunks)} chunks are left ({files:,} files): `assay backfill run {backfill_id}` does them." if left else ""
    say(f"{backfill_id}: {row['what']}, {row['from_date']} to {row['to_date']}, {row['state']}. {rest or 'Nothing is left to do.'}")


@app.command("cancel")
def cancel(backfill_id: Backfill, as_json: AsJson = False) -> None:
    """Take back what is left of a backfill. The chunk at work ends in its own time, what is done stays."""
    from spark_jobs.io.backfill_store import BackfillStore
    from spark_jobs.jobs.backfill_cancel import cancel as cancel_backfill

    row = BackfillStore(load_settings()).get(backfill_id)
    did = cancel_backfill(_run(row["pipeline"]), backfill_id, getpass.getuser())
    print_json(did) if as_json else say(did["sentence"])


@app.command("verify")
def verify(backfill_id: Backfill, as_json: AsJson = False) -> None:
    """Compare gold with a batch over silver for the whole range; show each day before and after, and predicted against actual."""
    from spark_jobs.cli.backfill_run import verify_in_process
    from spark_jobs.io.backfill_store import BackfillStore

    verify_in_process(BackfillStore(load_settings()).get(backfill_id), as_json=as_json)


def _planned(
    pipeline: str, what: str, first: str, last: str, accounts: str, regions: str, source: str, chunk_files: int, newest_first: bool
) -> dict[str, Any]:
    from spark_jobs.jobs.backfill_plan import plan as plan_backfill
    from spark_jobs.spec.backfill import BackfillRequest

    request = BackfillRequest.parse(
        what, first, last, accounts=accounts, regions=regions, source=source, chunk_files=chunk_files, is_newest_first=newest_first
    )
    return plan_backfill(_run(pipeline), request, getpass.getuser())


def _run(pipeline: str) -> Any:
    from spark_jobs.jobs.run import Run, utc_now
    from spark_jobs.spec.pipeline import load_pipeline

    return Run(load_settings(), load_pipeline(pipeline), f"backfill__{utc_now():%Y-%m-%dT%H:%M:%S.%fZ}")


def _show(row: dict[str, Any], as_json: bool) -> None:
    from spark_jobs.cli.backfill_run import show_page
    from spark_jobs.jobs.backfill_page import plan_page, plan_sentence

    if as_json:
        print_json(row | {"sentence": plan_sentence(row)})
        return
    show_page(plan_page(row))
    say(plan_sentence(row))
