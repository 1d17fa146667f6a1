"""`assay status`: how far each table is."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from spark_jobs.cli.options import AsJson, PipelineName, pipelines
from spark_jobs.cli.status_words import bytes_in_words, counted, minutes_in_words
from spark_jobs.cli.terminal import print_json, print_table, say, shown
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.settings import load_settings

SHOWN = {
    "table": "table", "rows": "rows", "version": "version", "batch_id": "last batch", "finished_at": "at (UTC)", "lag": "not consumed yet",
    "gate": "last gate", "books": "books", "waiting": "waiting for you",
}  # fmt: skip
COLOURS = {
    "pass": "green",
    "balanced": "green",
    "nothing": "green",
    "warn": "yellow",
    "hold": "yellow",
    "stop": "bold red",
    "NOT BALANCED": "bold red",
}


QUERIES = {
    "table": "query", "message": "message", "is_data_available": "data available", "is_trigger_active": "trigger active",
    "epoch": "epoch", "run_id": "run",
}  # fmt: skip


def status(
    pipeline: PipelineName = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="A live screen of rates, lag and freshness, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.2, help="With --watch: seconds between two looks.")] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Per table: rows, version, last batch, what is not consumed yet (files, bytes, minutes), and what the last gate said."""
    if watch:
        from spark_jobs.cli.watch import watch as watch_screen

        if as_json:
            raise ConfigurationFault("--watch draws a screen and --json prints for a program; `assay progress --json` is read by one.")
        watch_screen(load_settings(), pipelines(pipeline), every)
        return
    from spark_jobs.jobs.run import utc_now
    from spark_jobs.report.live import Live
    from spark_jobs.report.progress import newest_event, progress
    from spark_jobs.report.quarantine_groups import growing_groups, growing_sentence
    from spark_jobs.report.views import LakeViews

    settings, now = load_settings(), utc_now()
    views = LakeViews(settings)
    found: list[dict[str, Any]] = []
    for declared in pipelines(pipeline):
        newest = newest_event(views, declared)
        tables, growing = progress(settings, views, declared, now), growing_groups(views, now, declared.name)
        queries = Live(settings, declared).look(now)["queries"]
        found.append({"pipeline": declared.name, "newest_event_at": newest, "tables": tables, "queries": queries, "growing": growing})
    if as_json:
        print_json({"lake": settings.lake_root, "at": now, "pipelines": found})
        return
    for one in found:
        print_table([_row(row) for row in one["tables"]], SHOWN, title=f"{one['pipeline']} in {settings.lake_root}", styles=COLOURS)
        if running := [query for query in one["queries"] if query["is_running"]]:
            print_table(running, QUERIES)
        say(_sentence(one["tables"], one["newest_event_at"], now))
        if one["growing"]:
            say(growing_sentence(one["growing"]), style="bold red")


def lag_in_words(lag: dict[str, Any]) -> str:
    """`2 files, 1.3 MB, 4 min`, or `nothing`."""
    if not (lag["files"] or lag["rows"]):
        return "nothing"
    parts = [counted(lag["rows"], "row") if lag["rows"] else "", counted(lag["files"], "file") if lag["files"] else ""]
    parts += [bytes_in_words(lag["bytes"]) if lag["bytes"] else "", minutes_in_words(lag["minutes"]) if lag["minutes"] else ""]
    return ", ".join(part for part in parts if part)


def _row(row: dict[str, Any]) -> dict[str, Any]:
    books = {None: "", True: "balanced", False: "NOT BALANCED"}[row["is_balanced"]]
    return row | {"lag": lag_in_words(row["lag"]), "gate": row["gate"]["outcome"], "books": books, "waiting": ", ".join(row["waiting"])}


def _sentence(tables: list[dict[str, Any]], newest: datetime | None, now: datetime) -> str:
    if all(row["rows"] is None for row in tables):
        return "Nothing was written yet. `make run` starts with the sample; `assay files` shows what is listed."
    lagging = [row for row in tables if row["lag"]["files"] or row["lag"]["rows"]]
    behind = [row["table"] for row in lagging if row["cadence"] == "hourly"]
    said = f"Not up to date: {', '.join(behind)}; the next run goes on there." if behind else "Every layer has consumed its source."
    if daily := [row["table"] for row in lagging if row["cadence"] == "daily"]:
        said += f" The daily run brings up {', '.join(daily)}."
    if any(row["waiting"] for row in tables):
        said += " Batches wait for a decision: `assay held`."
    if any(row["is_balanced"] is False for row in tables):
        said += " BOOKS DO NOT BALANCE: `assay books`."
    return said + (f" Newest event: {shown(newest)} UTC, {minutes_in_words((now - newest).total_seconds() / 60)} ago." if newest else "")
