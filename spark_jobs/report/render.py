"""JSON to HTML, and nothing else: the same facts give the same page, byte for byte. Every value is escaped by the template engine."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from spark_jobs.report import charts

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The page's own Content-Security-Policy: no script, no image, no address, no form; only the style sheet that is in the page."""


def report_page(facts: dict[str, Any]) -> str:
    """The page of one run, from the facts as they are in report.json."""
    return _environment().get_template("report.html").render(facts=facts, policy=POLICY)


def index_page(runs: list[dict[str, Any]], omitted: int) -> str:
    """The list of runs, newest first; each has pipeline, run_id, folder, ran_at, state, word, sentence, equation."""
    return _environment().get_template("index.html").render(runs=runs, omitted=omitted, policy=POLICY)


def notice_page(subject: str, items: list[dict[str, Any]], foot: str) -> str:
    """The HTML form of an alert: each item has word, colour, sentence, rule, subject, when, incident_id."""
    return _environment().get_template("notice.html").render(subject=subject, items=items, foot=foot)


def to_json(facts: dict[str, Any]) -> str:
    """Facts as JSON text: times in ISO 8601 UTC, keys in their written order, ASCII only."""
    return json.dumps(facts, default=_jsonable, indent=1) + "\n"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("spark_jobs.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(number=_number, time=_time, size=_size, age=_age, visible=visible)
    environment.globals["split_path"] = _split_path
    environment.globals["charts"] = charts
    return environment


def visible(value: object) -> str:
    """Text whose unseen characters (controls, bidirectional overrides) are written out, so that a value cannot disguise itself."""
    return "".join(
        char.encode("unicode_escape", "surrogatepass").decode() if unicodedata.category(char) in ("Cc", "Cf", "Cs") else char
        for char in ("" if value is None else str(value))
    )


def _split_path(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,}"


def _time(value: str | None) -> str:
    return "–" if not value else f"{datetime.fromisoformat(value):%Y-%m-%d %H:%M:%S}"


def _size(value: int | None) -> str:
    if value is None:
        return "–"
    size, unit = float(value), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:,.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"


def _age(minutes: float | None) -> str:
    if minutes is None:
        return "–"
    whole = round(minutes)
    if whole < 120:
        return f"{whole} min"
    return f"{whole // 60} h" if whole < 2880 else f"{whole // 1440:,} days"


def _jsonable(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat() + "+00:00"
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
