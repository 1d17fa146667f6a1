"""`assay files`: the file ledger. Every landed file, what became of it, and another reading of those that failed."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_jobs.cli.options import AsJson, Limit, PipelineName, RunId
from spark_jobs.cli.terminal import print_json, print_table, say
from spark_jobs.spec.errors import ConfigurationFault, UnknownName
from spark_jobs.spec.settings import Settings, load_settings

if TYPE_CHECKING:
    from spark_jobs.report.views import LakeViews

app = typer.Typer(invoke_without_command=True, help="The file ledger: every landed file, its state, records, hash and reason.")

SHOWN = {
    "state": "state", "path": "file", "size": "bytes", "records": "records", "quarantined": "quarantined", "attempt": "attempt",
    "sha256": "sha-256", "read_at": "read at (UTC)", "reason": "reason",
}  # fmt: skip
COLOURS = {"ok": "green", "failed": "red", "stopped": "red", "pending": "yellow", "ignored": "dim"}
MOST_RETRIED = 100_000  # one commit of the ledger; more is a backfill, not a retry


@app.callback()
def files(
    context: typer.Context,
    pipeline: PipelineName = "",
    state: Annotated[str, typer.Option(help="pending, stopped, ok, failed or ignored.", show_default="all")] = "",
    path: Annotated[str, typer.Option(help="A part of the path, or a pattern with * and ?.", show_default="all")] = "",
    day: Annotated[str, typer.Option("--date", help="Date of the folder the file landed in, yyyy-mm-dd.", show_default="all")] = "",
    run_id: RunId = "",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List files: failed and pending ones first, then the newest. `assay files retry` reads failed ones again."""
    if context.invoked_subcommand:
        return
    from spark_jobs.report.file_states import STATES, FileFilter, file_counts, file_states
    from spark_jobs.report.views import LakeViews

    if state and state not in STATES:
        raise ConfigurationFault(f"'{state}' is not a state of a file. Use {', '.join(STATES)}.")
    settings = load_settings()
    views = LakeViews(settings)
    wanted = FileFilter(pipeline, state, path, _day(day), run_id)
    counts, rows = file_counts(views, wanted), file_states(views, wanted, limit)
    if as_json:
        print_json({"counts": counts, "files": rows})
        return
    matching = sum(row["files"] for row in counts)
    if not matching:
        say(
            "No file in the ledger matches."
            if any((pipeline, state, path, day, run_id))
            else "The ledger is empty: nothing was listed yet."
        )
        return
    shown = [row | {"path": below(settings, row["path"]), "sha256": (row["sha256"] or "")[:12], "reason": _why(row)} for row in rows]
    print_table(shown, SHOWN, styles=COLOURS)
    states = ", ".join(f"{row['files']:,} {row['state']}" for row in counts)
    more = f" Shown: {len(rows):,}; --limit shows more." if matching > len(rows) else ""
    size, records = sum(row["bytes"] for row in counts), sum(row["records"] for row in counts)
    say(f"{matching:,} files ({states}), {size:,} bytes, {records:,} records.{more}")


@app.command("retry")
def retry(
    path: Annotated[str, typer.Argument(help="A failed file: its path, a part of it, or a pattern with * and ?.")] = "",
    all_failed: Annotated[bool, typer.Option("--all-failed", help="Every file whose last reading failed.")] = False,
    pipeline: PipelineName = "",
    as_json: AsJson = False,
) -> None:
    """Ask for one more reading of failed files. The ledger gets a new row; the next run reads them."""
    from spark_jobs.io.ledger import readmit
    from spark_jobs.jobs.run import utc_now
    from spark_jobs.report.file_states import FileFilter, file_states
    from spark_jobs.report.views import LakeViews

    if bool(path) == all_failed:
        raise ConfigurationFault("Name a file (or a pattern), or say --all-failed.")
    settings = load_settings()
    views = LakeViews(settings)
    failed = file_states(views, FileFilter(pipeline, "failed", path), MOST_RETRIED)
    if not failed and path:
        raise UnknownName(_nothing_failed(views, pipeline, path))
    now = utc_now()
    by_pipeline: dict[str, list[str]] = {}
    for row in failed:
        by_pipeline.setdefault(row["pipeline"], []).append(row["file_id"])
    run_id = f"retry__{now:%Y-%m-%dT%H:%M:%SZ}"
    entered = sum(readmit(settings, name, file_ids, run_id, now) for name, file_ids in by_pipeline.items())
    sentence = f"{entered:,} file{'s' if entered != 1 else ''} will be read again by the next run." if entered else "No file has failed."
    if as_json:
        print_json({"entered": entered, "files": [row["path"] for row in failed], "sentence": sentence})
    else:
        for row in failed[:20]:
            say(f"again: {below(settings, row['path'])} (attempt {row['attempt'] + 1}; last time: {row['reason']})")
        say(sentence)


def below(settings: Settings, path: str) -> str:
    """A path as it reads below the landing root."""
    root = settings.landing_root.rstrip("/") + "/"
    return path[len(root) :] if path.startswith(root) else path


def _nothing_failed(views: LakeViews, pipeline: str, path: str) -> str:
    from spark_jobs.report.file_states import FileFilter, file_counts

    counts = {row["state"]: row["files"] for row in file_counts(views, FileFilter(pipeline, "", path))}
    if not counts:
        return f"No file in the ledger matches '{path}'. `assay files` lists what it has."
    found = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    return f"No failed file matches '{path}'; there are {found}, which need no retry."


def _why(row: dict[str, Any]) -> str:
    reason = row["reason"] or row["notes"] or ""
    return f"{reason} It is read again by itself." if row["state"] == "failed" and row["heals"] else reason


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise ConfigurationFault(f"'{text}' is not a date; write yyyy-mm-dd.") from None
