"""`assay status`: how far each table is."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import typer  # noqa: F401  # the annotations of the options are evaluated when the command is registered

from spark_jobs.cli.options import AsJson, PipelineName, pipelines
from spark_jobs.cli.terminal import print_json, print_table, say, shown
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


def status(pipeline: PipelineName = "", as_json: AsJson = False) -> None:
    """Per table: rows, version, last batch, what is not consumed yet (files, bytes, minutes), and what the last gate said."""
    from spark_jobs.jobs.run import utc_now
    from spark_jobs.report.progress import newest_event, progress
    from spark_jobs.report.quarantine_groups import growing_groups, growing_sentence
    from spark_jobs.report.views import LakeViews

    settings, now = load_settings(), utc_now()
    views = LakeViews(settings)
    found: list[dict[str, Any]] = []
    for declared in pipelines(pipeline):
        newest = newest_event(views, declared)
        tables, growing = progress(settings, views, declared, now), growing_groups(views, now, declared.name)
        found.append({"pipeline": declared.name, "newest_event_at": newest, "tables": tables, "growing": growing})
    if as_json:
        print_json({"lake": settings.lake_root, "at": now, "pipelines": found})
        return
    for one in found:
        print_table([_row(row) for row in one["tables"]], SHOWN, title=f"{one['pipeline']} in {settings.lake_root}", styles=COLOURS)
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


def counted(number: int, noun: str) -> str:
    """`1 file`, `2,000 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def bytes_in_words(count: int) -> str:
    """A number of bytes in decimal units: `1.3 MB`."""
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:,.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"


def minutes_in_words(minutes: float) -> str:
    """A length of time in its two largest units: `3 d 4 h`."""
    whole = round(minutes)
    if whole < 60:
        return f"{minutes:.0f} min"
    hours, rest = divmod(whole, 60)
    return f"{hours} h {rest} min" if hours < 48 else f"{hours // 24:,} d {hours % 24} h"


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
