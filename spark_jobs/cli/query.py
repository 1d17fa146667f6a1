"""`assay query`: read-only SQL over the tables by name, without a JVM, and the example questions that come with each pipeline."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from itertools import islice
from typing import Annotated, Any

import typer

from spark_jobs.cli.options import AsJson, pipelines
from spark_jobs.cli.terminal import console, inert, print_csv, print_json, print_json_rows, print_table, say
from spark_jobs.spec.errors import ConfigurationFault, UnknownName
from spark_jobs.spec.settings import load_settings

MOST_ROWS = 100  # what a terminal can show; a pipe takes them all with --limit 0


@dataclass(frozen=True, slots=True)
class Example:
    """A shipped question. The first comment line of its file is the subject and title, the others say how to read the answer."""

    name: str
    subject: str
    title: str
    explanation: str
    sql: str


def query(
    sql: Annotated[str, typer.Argument(help="One SELECT, WITH, DESCRIBE, SHOW or EXPLAIN statement; - reads it from standard input.")] = "",
    example: Annotated[str, typer.Option("--example", "-e", help="Run an example by name.", show_default=False)] = "",
    list_examples: Annotated[bool, typer.Option("--list", help="List the examples.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Print at most this many rows; 0 prints all.")] = MOST_ROWS,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask the tables by their full names, as in SELECT count(*) FROM silver.cloudtrail_events."""
    sql = sys.stdin.read() if sql == "-" else sql
    if sum(map(bool, (sql, example, list_examples))) != 1:
        raise ConfigurationFault("Give one SQL statement, or --example NAME, or --list.")
    if as_csv and as_json:
        raise ConfigurationFault("--csv and --json exclude each other.")
    known = examples()
    if list_examples:
        _list(known, as_json)
        return
    if example and example not in known:
        from difflib import get_close_matches

        near = get_close_matches(example, known, 3, 0.5)
        raise UnknownName(
            f"There is no example '{example}': " + (f"did you mean {' or '.join(near)}?" if near else "`assay query --list` names them.")
        )
    from spark_jobs.report.views import LakeViews

    columns, rows = LakeViews(load_settings()).ask(known[example].sql if example else sql)
    if example and not (as_json or as_csv):
        say(known[example].title, style="bold")
        say(known[example].explanation)
    _print(columns, rows, limit, as_csv=as_csv, as_json=as_json)


def examples() -> dict[str, Example]:
    """The questions shipped in `spark_jobs/pipelines/<name>/queries/*.sql`, by name."""
    found: dict[str, Example] = {}
    for pipeline in pipelines(""):
        folder = resources.files(f"spark_jobs.pipelines.{pipeline.name}") / "queries"
        for file in sorted(folder.iterdir(), key=lambda entry: entry.name) if folder.is_dir() else ():
            if file.name.endswith(".sql"):
                name = file.name.removesuffix(".sql")
                found[name] = _example(name, file.read_text(encoding="utf-8"))
    return found


def _example(name: str, text: str) -> Example:
    comments = re.match(r"(?:--[^\n]*\n)+", text)
    lines = [line.removeprefix("--").strip() for line in (comments[0] if comments else "").splitlines()]
    subject, _, title = (lines[0] if lines else name).partition(": ")
    return Example(name, subject, title, " ".join(lines[1:]), text)


def _list(known: dict[str, Example], as_json: bool) -> None:
    rows = [{"name": one.name, "subject": one.subject, "title": one.title, "explanation": one.explanation} for one in known.values()]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, {"name": "name", "subject": "subject", "title": "question"})
        say("`assay query --example NAME` asks it.")


def _print(columns: list[str], rows: Iterator[dict[str, Any]], limit: int, *, as_csv: bool, as_json: bool) -> None:
    first = list(islice(rows, limit)) if limit else rows
    if as_csv:
        print_csv(columns, first)
    elif as_json:
        print_json_rows(first)
    elif columns == ["explain_key", "explain_value"]:
        for row in first:
            for line in str(row["explain_value"]).splitlines():
                console().print(inert(line), soft_wrap=True)
    else:
        shown = list(first)
        print_table(shown, {name: inert(name) for name in columns})
        say(f"{len(shown):,} row{'s' if len(shown) != 1 else ''}." if not limit or len(shown) < limit or next(rows, None) is None
            else f"The first {limit:,} rows; --limit shows more, --limit 0 all.")  # fmt: skip
