"""`assay status --watch`: what the queries do, on a screen that is drawn again every few seconds."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from spark_jobs.cli.status_words import ago, bytes_in_words, counted, length, minutes_in_words
from spark_jobs.cli.terminal import console, inert
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

MOST_ALERTS = 3  # the queries should still be on the screen
NARROW = 150  # columns of a terminal below which each table gets lines of its own
_BARS, _PLAIN_BARS = "▁▂▃▄▅▆▇█", "_.-=+*#@"
HEADINGS = {
    "table": "table", "doing": "doing", "rates": "records/s in, done", "took": "batch took", "size": "size of limit", "behind": "behind",
    "fresh": "newest event", "age": "last batch", "gate": "gate", "spark": "records per batch",
}  # fmt: skip
_NARROW_LINES = (
    {"rates": "in, done /s", "took": "took", "size": "size"},
    {"behind": "behind", "fresh": "newest event"},
    {"age": "last batch", "gate": "gate", "spark": ""},
)
_COLOURS = {"pass": "green", "warn": "yellow", "hold": "yellow", "stop": "bold red"}


def watch(settings: Settings, pipelines: Sequence[Pipeline], every_s: float) -> None:
    """Until Ctrl-C. Without a terminal the same is printed as plain lines, once per interval."""
    from rich.live import Live as Screen

    from spark_jobs.jobs.run import utc_now
    from spark_jobs.report.live import Live

    out = console()
    views = [Live(settings, pipeline) for pipeline in pipelines]

    def drawn() -> RenderableType:
        return screen([view.look(utc_now()) for view in views], out, every_s)

    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell has told a background job to ignore the first
        signal.signal(number, signal.default_int_handler)
    try:
        if not out.is_terminal:
            while True:
                out.print(drawn())
                out.file.flush()
                time.sleep(every_s)
        with Screen(drawn(), console=out, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(every_s)
                live.update(drawn(), refresh=True)
    except KeyboardInterrupt:
        return


def screen(looks: Sequence[dict[str, Any]], out: Console, every_s: float) -> RenderableType:
    """All pipelines under each other."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for look in looks:
        parts += [Text(inert(headline(look)), style="bold"), Text(inert(who_runs(look)), style="green" if look["driver"] else "yellow")]
        parts += [Text(inert(line), style="bold red", no_wrap=True, overflow="ellipsis") for line in alert_lines(look)]
        cells = [row_in_words(query, look["at"], plain=not out.encoding.lower().startswith("utf")) for query in look["queries"]]
        parts.append(_stacked(cells) if out.width < NARROW else _table(cells))
    if out.is_terminal:
        parts.append(Text(f"Drawn every {every_s:g} s. Ctrl-C ends the screen, not the run.", style="dim"))
    return Group(*parts)


def headline(look: dict[str, Any]) -> str:
    fresh = [query["freshness_s"] for query in look["queries"] if query["freshness_s"] is not None]
    said = f"{look['pipeline']} at {look['at']:%H:%M:%S} UTC"
    return said + (f": newest event {ago(min(fresh))}" if fresh else "")


def who_runs(look: dict[str, Any]) -> str:
    """Who writes the tables now, in a sentence."""
    if driver := look["driver"]:
        said = f"Run continuously by {driver['owner']} (process {driver['pid']} on {driver['host']}, epoch {driver['epoch']})"
        said += f" since {driver['since']:%H:%M:%S}" if driver["since"] else ""
        left = max(0.0, (driver["until"] - look["at"]).total_seconds()) if driver["until"] else None
        return said + (f", {minutes_in_words(left / 60)} left." if left is not None else ".")
    if holders := sorted({query["holder"] for query in look["queries"] if query["holder"]}):
        return f"Being written by {', '.join(holders)}."
    return "Nobody is writing now. `assay stream start` or the DAG brings it up to date."


def alert_lines(look: dict[str, Any]) -> list[str]:
    """One line per incident that fires, up to MOST_ALERTS."""
    fires = look["alerts"]
    lines = [f"ALERT {one['rule']} since {one['since']:%H:%M:%S}: {one['sentence']}" for one in fires[:MOST_ALERTS]]
    return lines + ([f"and {len(fires) - MOST_ALERTS:,} more: `assay alerts`"] if len(fires) > MOST_ALERTS else [])


def row_in_words(query: dict[str, Any], now: datetime, *, plain: bool = False) -> dict[str, str]:
    """A query's cells, by the keys of HEADINGS."""
    lag = query["lag"]
    behind = "?" if lag is None else "nothing"
    if lag and lag["files"]:
        behind = f"{counted(lag['files'], 'file')}, {bytes_in_words(lag['bytes'])}, {length(lag['minutes'] * 60)}"
    took, size, limit = query["duration_ms"], query["batch_bytes"], query["batch_limit"]
    return {
        "table": query["table"],
        "doing": doing(query),
        "rates": f"{rate(query['input_rows_per_s'])}, {rate(query['processed_rows_per_s'])}" if took is not None else "",
        "took": f"{took / 1000:.1f} s" if took is not None else "",
        "size": (bytes_in_words(size) if size is not None else "") + (f" of {bytes_in_words(limit)}" if limit else ""),
        "behind": behind,
        "fresh": ago(query["freshness_s"]) if query["freshness_s"] is not None else "",
        "age": f"{query['batch_id']}, {ago(query['last_batch_age_s'])}" if query["batch_id"] else "none yet",
        "gate": query["gate"] or "",
        "spark": sparkline(query["recent_rows"], _PLAIN_BARS if plain else _BARS),
    }  # fmt: skip


def doing(query: dict[str, Any]) -> str:
    """What Spark says of the query, with whether data waits and whether a batch is at work."""
    if not query["is_running"]:
        return f"{query['holder']} holds it" if query["holder"] else "not running"
    marks = [word for word, holds in (("data", query["is_data_available"]), ("at work", query["is_trigger_active"])) if holds]
    return f"{query['message']}{f' ({chr(44).join(marks)})' if marks else ''}"


def sparkline(values: Sequence[float], bars: str = _BARS) -> str:
    """One character per value, the largest the highest."""
    most = max(values, default=0)
    return "".join(bars[min(len(bars) - 1, int(value / most * (len(bars) - 1) + 0.5))] if most else bars[0] for value in values)


def rate(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _table(cells: list[dict[str, str]]) -> RenderableType:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for key, heading in HEADINGS.items():
        table.add_column(heading, overflow="fold", no_wrap=key in ("table", "spark"))
    for row in cells:
        table.add_row(*(Text(inert(row[key]), style=_COLOURS.get(row[key], "")) for key in HEADINGS))
    return table


def _stacked(cells: list[dict[str, str]]) -> RenderableType:
    """For a narrow terminal: each query in four lines, so that three of them fit on 24."""
    from rich.text import Text

    text = Text()
    for row in cells:
        text.append(f"\n{inert(row['table'])}", style="bold")
        text.append(f"  {inert(row['doing'])}\n")
        for keys in _NARROW_LINES:
            shown = [key for key in keys if row[key]]
            for key in shown:
                text.append("  " if key == shown[0] else " · ")
                text.append(f"{keys[key]}: " if keys[key] else "", style="dim")
                text.append(inert(row[key]), style=_COLOURS.get(row[key], ""))
            text.append("\n" if shown else "")
    return text
