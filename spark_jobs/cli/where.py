"""`assay where`: where one record went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from spark_jobs.cli.options import AsJson, PipelineName, pipelines
from spark_jobs.cli.terminal import console, inert, print_json, say
from spark_jobs.spec.errors import BooksUnbalanced, UnknownName
from spark_jobs.spec.settings import load_settings

if TYPE_CHECKING:
    from spark_jobs.report.way import Trace

MARKS = {
    "found": "●",
    "counted": "●",
    "not counted": "○",
    "quarantined": "▲",
    "duplicate": "◆",
    "held": "■",
    "waiting": "…",
    "failed": "✗",
    "missing": "✗",
}
COLOURS = {"found": "green", "counted": "green", "quarantined": "yellow", "duplicate": "cyan", "held": "yellow", "waiting": "yellow",
           "failed": "red", "missing": "bold red", "not counted": "dim"}  # fmt: skip
ENDS = {"published": "green", "duplicate": "cyan", "quarantined": "yellow", "held": "yellow", "waiting": "yellow"}


def where(
    record: Annotated[str, typer.Argument(metavar="RECORD", help="A record id (<file id>:<index>) or an event's id.")],
    pipeline: PipelineName = "",
    raw: Annotated[bool, typer.Option("--raw", help="Also print the record's exact text.")] = False,
    as_json: AsJson = False,
) -> None:
    """Follow one record: file, bronze, silver (or quarantine, duplicates, held), and the gold windows that count it."""
    from spark_jobs.report.trace import is_rid, rids_of_key, rids_of_quarantined_key, trace
    from spark_jobs.report.views import LakeViews

    views = LakeViews(load_settings())
    ways: list[Trace] = []
    for declared in pipelines(pipeline):
        if is_rid(record):
            rids = [record]
        else:
            rids = rids_of_key(views, declared, record) or rids_of_quarantined_key(views, declared, record)
        ways += [trace(views, declared, rid) for rid in rids]
    known = [way for way in ways if way.ends != "unknown"]
    if not known:
        raise UnknownName(_unknown(record, ways))
    if as_json:
        print_json([way.as_dict() if raw else _without_raw(way) for way in known])
    else:
        for way in known:
            _show(way, raw)
    if missing := next((way for way in known if way.ends == "missing"), None):
        raise BooksUnbalanced(missing.sentence)
    if len(known) > 1 and not as_json:
        say(f"{len(known)} deliveries of one event; each is accounted for.")


def _show(way: Trace, raw: bool) -> None:
    terminal = console()
    terminal.print(inert(way.rid), style="bold")
    layer = ""
    for step in way.steps:
        heading = step.layer if step.layer != layer else ""
        layer = step.layer
        terminal.print(
            f"  {heading:<8}{MARKS.get(step.state, '·')} {inert(step.table)}: {inert(step.sentence)}",
            style=COLOURS.get(step.state),
            soft_wrap=True,
        )
        if raw and step.facts.get("raw") is not None:
            terminal.print(f"{'':<12}{inert(step.facts['raw'])}", soft_wrap=True)
    terminal.print(f"  → {inert(way.sentence)}", style=ENDS.get(way.ends, "bold red"), soft_wrap=True)


def _without_raw(way: Trace) -> dict[str, object]:
    found = way.as_dict()
    for step in found["steps"]:
        step["facts"].pop("raw", None)
    return found


def _unknown(record: str, ways: list[Trace]) -> str:
    if ways:
        return ways[0].sentence
    return f"No event '{record}' is in silver, its duplicates, held batches or quarantine. It may not have been read yet: `assay status`."
