"""What the terminal is shown: tables, JSON and sentences, with every data value made inert."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# Control, format (bidirectional overrides, zero width), surrogate and line or paragraph separators: what can move a cursor or hide text.
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def inert(value: object) -> str:
    """A value as text that cannot steer a terminal: unseen characters are written out as escapes, e.g. \\x1b."""
    return "".join(char if unicodedata.category(char) not in _UNSEEN else _escaped(char) for char in shown(value))


def shown(value: object) -> str:
    """A value as a person reads it: times in UTC to the second, numbers with thousands separators, nothing for null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC) if value.tzinfo else value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, default=_jsonable, ensure_ascii=False)
    return str(value)


def console() -> Console:
    """A rich console on standard output that interprets no markup, emoji codes or highlighting in what it prints."""
    from rich.console import Console

    # Without a terminal (a pipe, a log) lines are not cut at 80 characters.
    width = None if sys.stdout.isatty() else 200
    return Console(markup=False, highlight=False, emoji=False, width=width)


def print_table(
    rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], *, title: str = "", styles: Mapping[str, str] | None = None
) -> None:
    """Rows under headings; `columns` maps key to heading, `styles` maps a shown value to a rich style. Numbers are right-aligned."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    numeric = {key for key in columns if rows and all(isinstance(row.get(key), (int, float)) or row.get(key) is None for row in rows)}
    table = Table(box=box.SIMPLE_HEAD, title=Text(title) if title else None, title_justify="left", pad_edge=False)
    for key, heading in columns.items():
        table.add_column(heading, justify="right" if key in numeric else "left", overflow="fold")
    for row in rows:
        cells = [inert(row.get(key)) for key in columns]
        table.add_row(*(Text(cell, style=(styles or {}).get(cell, "")) for cell in cells))
    console().print(table)


def say(sentence: str, style: str = "") -> None:
    """One line for a person on standard output."""
    console().print(inert(sentence), style=style or None, soft_wrap=True)


def complain(sentence: str) -> None:
    """One line on standard error."""
    print(inert(sentence), file=sys.stderr, flush=True)


def print_json(value: object) -> None:
    """JSON for a program, ASCII only, so that it is inert in a terminal too."""
    json.dump(value, sys.stdout, default=_jsonable, indent=2)
    sys.stdout.write("\n")


def print_json_rows(rows: Iterable[Mapping[str, Any]]) -> None:
    """A JSON array, one row per line, written as the rows come."""
    separator = "[\n"
    for row in rows:
        sys.stdout.write(separator + json.dumps(row, default=_jsonable))
        separator = ",\n"
    sys.stdout.write("[]\n" if separator == "[\n" else "\n]\n")


def print_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """CSV (RFC 4180): exact values into a pipe or file, inert ones onto a terminal."""
    import csv

    is_terminal = sys.stdout.isatty()
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        cells = [_csv_cell(row.get(name)) for name in columns]
        writer.writerow([inert(cell) for cell in cells] if is_terminal else cells)


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (datetime, date, bytes, bool, dict, list)):
        found = _jsonable(value) if not isinstance(value, (bool, dict, list)) else json.dumps(value, default=_jsonable, ensure_ascii=False)
        return str(found)
    return str(value)


def _jsonable(value: Any) -> Any:
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC) if value.tzinfo else value:%Y-%m-%dT%H:%M:%S.%fZ}".replace(".000000Z", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")
