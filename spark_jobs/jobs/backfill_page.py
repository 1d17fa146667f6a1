"""A backfill as a person reads it: the plan to approve, and what came of it. Markdown, with every value made inert."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from spark_jobs.spec.backfill import BackfillRequest

MOST_ROWS = 31  # of a table by day; longer ranges are summed by month
Row = dict[str, Any]


def plan_sentence(row: Row) -> str:
    details = json.loads(row["plan"])
    request = BackfillRequest.from_plan(details["request"])
    overlap = f"{row['overlap_files']:,} files of the range are in the ledger already and are left out. " if row["overlap_files"] else ""
    if not row["chunks"]:
        return f"{row['backfill_id']}: {request}. Nothing to do: {overlap or 'nothing is new.'}".strip()
    days = f"{request.first} to {request.last}"
    if request.what == "recompute":
        size = f"{row['records']:,} events of {days} in silver"
    else:
        size = f"{row['files']:,} files of {days}, {row['bytes']:,} bytes, {_records(row, details)}"
    return (
        f"{row['backfill_id']}: {request.what} of {size}, in {row['chunks']} chunk{'s' if row['chunks'] > 1 else ''}. {overlap}"
        f"About {duration(row['predicted_s'])} and {row['predicted_cpu_s']:,.0f} CPU-seconds ({details['basis']})."
    )


def plan_page(row: Row) -> str:
    """What a person reads before approving."""
    details = json.loads(row["plan"])
    request = BackfillRequest.from_plan(details["request"])
    facts = [
        ("what", str(request)),
        ("order", "newest dates first" if request.is_newest_first else "oldest dates first"),
        ("files to read" if request.what == "load" else "files", f"{row['files']:,}"),
        ("bytes, as landed", f"{row['bytes']:,}"),
        ("records expected", _records(row, details)),
        ("already in the ledger, left out", f"{row['overlap_files']:,} files"),
        ("objects that are no logs", f"{details['ignored']:,}"),
        ("chunks", f"{row['chunks']:,}"),
        ("predicted time", f"{duration(row['predicted_s'])}, {details['basis']}"),
        ("predicted CPU", f"{row['predicted_cpu_s']:,.0f} s"),
    ]
    parts = [f"### Backfill {row['backfill_id']}: {request.what}", table(("", ""), facts)]
    if details["refused"]:
        parts.append(f"**{len(details['refused'])} folders may not be listed** (permission denied); what lies there is not in the plan.")
    parts += ["#### Days that change", _days(details["days"])]
    windows = [(f"`{name}`", f"{count:,}") for name, count in details["windows"].items()]
    parts += ["#### Windows that may be computed again, at most", table(("table", "windows"), windows)]
    if details["chunks"]:
        shown = details["chunks"][:MOST_ROWS]
        rows = [(one["chunk"], one["first"], one["last"], f"{one['files']:,}", f"{one['bytes']:,}") for one in shown]
        parts += ["#### Chunks", table(("chunk", "from", "to", "files", "bytes"), rows)]
        if len(details["chunks"]) > len(shown):
            parts.append(f"… and {len(details['chunks']) - len(shown)} more.")
    return "\n\n".join(parts) + "\n"


def _days(days: Sequence[Row]) -> str:
    head = ("date", "new files", "bytes", "records", "files already read", "events in silver now")
    names = ("files", "bytes", "records", "known_files", "silver_rows")
    grouped = days if len(days) <= MOST_ROWS else by_month(days, names)
    return table(head, [(one["date"], *(f"{one[name]:,}" for name in names)) for one in grouped])


def by_month(days: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """Sums of these columns by month; `date` becomes yyyy-mm."""
    months: dict[str, Row] = {}
    for day in days:
        month = months.setdefault(day["date"][:7], {"date": day["date"][:7], **dict.fromkeys(names, 0)})
        for name in names:
            month[name] += day[name]
    return list(months.values())


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; what would be markup in a cell is shown as it is."""
    lines = ["| " + " | ".join(map(inert, head)) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(inert, row)) + " |" for row in rows])


def inert(value: object) -> str:
    return re.sub(r"[\x00-\x1f\x7f]", " ", str(value)).replace("|", "\\|").replace("<", "&lt;")


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _records(row: Row, details: Row) -> str:
    basis = {
        "counted": "counted", "measured": "from this installation's records per byte",
        "shipped": "not measured here yet: from the figure as shipped",
    }[details["records_basis"]]  # fmt: skip
    return f"{'' if details['records_basis'] == 'counted' else 'about '}{row['records']:,} records ({basis})"


def verify_page(row: Row, before: Row, after: Row, audited: Sequence[tuple[str, int, int]]) -> str:
    """What came of a backfill: each day before and after, gold against silver, and predicted against actual."""
    names = list(next(iter(after.values()), {}))
    days = [{"date": day, **{name: before.get(day, {}).get(name, 0) for name in names}} for day in after]
    later = [{"date": day, **after[day]} for day in after]
    if len(days) > MOST_ROWS:
        days, later = by_month(days, names), by_month(later, names)
    cells = [(one["date"], *(_change(one[name], now[name]) for name in names)) for one, now in zip(days, later, strict=True)]
    took = [
        (what, f"{row[predicted] or 0:,.0f} s", f"{row[actual] or 0:,.0f} s", f"{row[actual] / row[predicted]:.2f}")
        for what, predicted, actual in (("wall", "predicted_s", "actual_s"), ("CPU", "predicted_cpu_s", "actual_cpu_s"))
        if row[actual] and row[predicted]
    ]
    compared = [(f"`{name}`", f"{count:,}", different) for name, count, different in audited]
    parts = [
        f"### Backfill {row['backfill_id']}: {row['state']}",
        "#### Each day, before → after",
        table(("date", *(name.removeprefix("gold.") for name in names)), cells),
        "#### Gold against a batch over silver",
        table(("table", "cells compared", "different"), compared),
    ]
    if took:
        parts += ["#### Predicted and actual", table(("", "predicted", "actual", "ratio"), took)]
    return "\n\n".join(parts) + "\n"


def _change(before: int, after: int) -> str:
    return f"{after:,}" if before == after else f"{before:,} → {after:,}"
