"""`assay progress`: the batches of the last hours, with their rates, phases and lag."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Annotated, Any

import typer

from spark_jobs.cli.options import AsJson, Limit, PipelineName
from spark_jobs.cli.status_words import bytes_in_words, counted, length
from spark_jobs.cli.terminal import print_json_rows, print_table, say
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import TableId

SHOWN = {
    "at": "ended (UTC)", "table": "query", "batch_id": "batch", "mode": "mode", "input_rows": "rows", "input_rows_per_s": "in /s",
    "processed_rows_per_s": "done /s", "seconds": "took (s)", "slowest": "longest phase", "size": "size", "limit": "limit",
    "behind": "left behind", "versions": "versions",
}  # fmt: skip
_WITHIN = "triggerExecution"  # the whole of a batch, not a phase of it


def progress(
    pipeline: PipelineName = "",
    table: Annotated[str, typer.Option("--table", "-t", help="Only this query, e.g. silver.cloudtrail_events.", show_default="all")] = "",
    since: Annotated[str, typer.Option(help="How far back: 30m, 6h, 7d.")] = "1h",
    limit: Limit = 200,
    as_json: AsJson = False,
) -> None:
    """What each batch read and how long it took, newest last; kept for ASSAY_PROGRESS_DAYS."""
    from spark_jobs.io.progress_store import ProgressStore
    from spark_jobs.jobs.run import utc_now

    wanted = str(TableId.parse(table)) if table else ""
    found = ProgressStore(load_settings()).since(utc_now() - span(since), pipeline).to_pylist()
    rows = [row for row in found if not wanted or row["table"] == wanted]
    shown = rows[-limit:]
    if as_json:
        parsed = {"phases", "targets"}
        print_json_rows([{name: json.loads(value) if name in parsed and value else value for name, value in row.items()} for row in shown])
        return
    if not rows:
        say(f"No batch has ended within {since}. `assay books` has every batch ever.")
        return
    print_table([_row(row) for row in shown], SHOWN)
    said = f"{len(rows):,} batch{'' if len(rows) == 1 else 'es'}"
    say(f"{said}; the last {len(shown):,} are shown (--limit)." if len(shown) < len(rows) else f"{said}.")


def span(text: str) -> timedelta:
    """`30m`, `6h`, `7d`; raises ConfigurationFault."""
    found = re.fullmatch(r"(\d{1,5})([mhd])", text.strip())
    if not found or not int(found[1]):
        raise ConfigurationFault(f"'{text}' is not a length of time; write 30m, 6h or 7d.")
    return timedelta(**{{"m": "minutes", "h": "hours", "d": "days"}[found[2]]: int(found[1])})


def _row(row: dict[str, Any]) -> dict[str, Any]:
    phases = {name: ms for name, ms in json.loads(row["phases"] or "{}").items() if name != _WITHIN}
    slowest = max(phases, key=lambda name: phases[name], default="")
    files, minutes = row["lag_files"], row["lag_minutes"]
    behind = "?" if files is None else "nothing"
    if files:
        behind = f"{counted(files, 'file')}, {bytes_in_words(row['lag_bytes'])}, {length((minutes or 0) * 60)}"
    return {
        **row,
        "input_rows_per_s": _tenths(row["input_rows_per_s"]),
        "processed_rows_per_s": _tenths(row["processed_rows_per_s"]),
        "seconds": round(row["duration_ms"] / 1000, 1),
        "slowest": f"{slowest} {phases[slowest] / 1000:.1f} s" if slowest else "",
        "size": None if row["batch_bytes"] is None else bytes_in_words(row["batch_bytes"]),
        "limit": None if row["batch_limit"] is None else bytes_in_words(row["batch_limit"]),
        "behind": behind,
        "versions": f"{row['source_version']} → {'…' if row['target_version'] is None else row['target_version']}",
    }


def _tenths(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
