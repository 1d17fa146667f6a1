"""`assay late`: what came after its window had settled, and how late events come at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_jobs.cli.options import AsJson, Limit, PipelineName, pipelines
from spark_jobs.cli.terminal import print_json, print_table, say
from spark_jobs.spec.errors import ConfigurationFault, UnknownName
from spark_jobs.spec.moments import words
from spark_jobs.spec.settings import load_settings

if TYPE_CHECKING:
    from spark_jobs.report.views import LakeViews
    from spark_jobs.spec.pipeline import Pipeline

app = typer.Typer(invoke_without_command=True, help="What changed after its window had settled, and how late events come.")

SHOWN = {
    "table": "table", "window": "window (UTC)", "key": "key", "change": "before → after", "events": "events", "late": "late",
    "brought_by": "brought by", "file": "file", "amended_at": "changed at (UTC)",
}  # fmt: skip
LATENESS = {
    "account_id": "account", "aws_region": "region", "events": "events", "p50_s": "p50", "p95_s": "p95", "p99_s": "p99", "p999_s": "p99.9",
    "max_s": "max", "bound_99_s": "covers 99 %", "bound_999_s": "covers 99.9 %", "declared_s": "declared",
}  # fmt: skip
SECONDS = tuple(name for name in LATENESS if name.endswith("_s"))

TableName = Annotated[str, typer.Option("--table", help="Only this gold table.", show_default="all")]
Since = Annotated[str, typer.Option("--since", help="Only changes from then on (UTC): 2024-05-01 or 2024-05-01T12:00.", show_default="any")]


@app.callback()
def late(
    context: typer.Context,
    table: TableName = "",
    since: Since = "",
    limit: Limit = 20,
    pipeline: PipelineName = "",
    as_json: AsJson = False,
) -> None:
    """Without a subcommand: the changes of settled windows, newest first."""
    if context.invoked_subcommand is not None:
        return
    from spark_jobs.report.lateness import amendments
    from spark_jobs.report.views import LakeViews

    chosen = pipelines(pipeline)
    if table and table not in (str(gold) for one in chosen for gold in one.gold_tables):
        raise UnknownName(f"There is no gold table {table}. Known: {', '.join(str(gold) for one in chosen for gold in one.gold_tables)}.")
    rows = amendments(LakeViews(load_settings()), chosen, table=table, since=_moment(since), limit=limit)
    if as_json:
        print_json(rows)
    elif rows:
        print_table([_row(row) for row in rows], SHOWN)
        said = f"The newest {limit}; --limit shows more. " if len(rows) == limit else ""
        say(f"{said}Gold is exact all the same: each change is published. `assay late distribution` says how late events come.")
    else:
        say("No window has changed after it had settled.")


@app.command("distribution")
def lateness(
    pipeline: PipelineName = "",
    everything: Annotated[bool, typer.Option("--all", help="Also what a backfill brought in, not only what came live.")] = False,
    as_json: AsJson = False,
) -> None:
    """Arrival minus event time per account and region, and the lateness bound that would have covered 99 % and 99.9 %."""
    from spark_jobs.report.lateness import distribution
    from spark_jobs.report.views import LakeViews

    views = LakeViews(load_settings())
    found = {one.name: distribution(views, one, everything=everything) for one in pipelines(pipeline)}
    if as_json:
        print_json(found)
        return
    for one in pipelines(pipeline):
        _show(views, one, found[one.name])


def _show(views: LakeViews, pipeline: Pipeline, rows: list[dict[str, Any]]) -> None:
    if not rows:
        say(f"{pipeline.name}: no event has come live yet; --all counts what a backfill brought in too.")
        return
    shown = [row | {name: seconds_in_words(row[name]) for name in SECONDS} for row in rows]
    shown[-1]["account_id"] = "all"
    print_table(shown, LATENESS, title=f"{pipeline.name}: arrival minus event time")
    all_of_it, declared = rows[-1], pipeline.lateness.total_seconds()
    covers = "covers" if all_of_it["bound_999_s"] <= declared else "does not cover"
    say(
        f"A lateness of {seconds_in_words(all_of_it['bound_99_s'])} would have covered 99 % of the events, "
        f"{seconds_in_words(all_of_it['bound_999_s'])} 99.9 %. Declared: {seconds_in_words(declared)}, which {covers} 99.9 %."
    )


def seconds_in_words(seconds: float | None) -> str:
    """A length of time in its two largest units: `45 s`, `12 min`, `3 h 5 min`, `29 d 4 h`."""
    if seconds is None:
        return ""
    return words(timedelta(seconds=seconds))


def _row(row: dict[str, Any]) -> dict[str, Any]:
    before, after = row["before"], row["after"]
    if before and after:
        change = ", ".join(f"{name} {before.get(name)} → {value}" for name, value in after.items() if before.get(name) != value)
    else:
        change = "(no row) → " + _told(after) if after else _told(before) + " → (no row)"
    files, start, end = row["files"] or [], row["window_start"], row["window_end"]
    until = f"{end:%H:%M}" if end.date() == start.date() else f"{end:%Y-%m-%d %H:%M}"
    return row | {
        "window": f"{start:%Y-%m-%d %H:%M} to {until}", "key": _told(row["key"]), "change": change,
        "late": seconds_in_words(row["late_s"]),
        "file": (files[0].rsplit("/", 1)[-1] if files else "") + (f" and {len(files) - 1} more" if len(files) > 1 else ""),
    }  # fmt: skip


def _told(values: dict[str, Any] | None) -> str:
    return ", ".join(f"{name} {value}" for name, value in (values or {}).items())


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationFault(f"--since '{text}' is not a time; write 2024-05-01 or 2024-05-01T12:00 (UTC).") from None
    return moment.replace(tzinfo=moment.tzinfo or UTC)
