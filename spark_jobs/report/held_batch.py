"""One held or stopped batch as a text for the person who decides: the verdict, what failed, a masked sample, what each choice does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from spark_jobs.report.masking import mask_record
from spark_jobs.report.views import LakeViews
from spark_jobs.spec.tables import VERDICTS, TableId

SAMPLE_ROWS = 3
FAILED_SHOWN = 20  # more would be a table that nobody reads
_CHECKS = ("expectation", "column", "severity", "observed", "unexpected_count", "sample")


def describe_batch(views: LakeViews, batch: Mapping[str, Any], choices: Mapping[str, str]) -> str:
    """Markdown. `batch`: a row of `waiting_batches`; `choices`: what each decision open for it leads to. Data values are masked."""
    table = TableId.parse(batch["table"])
    failed = views.rows(
        f'SELECT expectation, "column", severity, observed, unexpected_count, sample FROM {VERDICTS} '
        "WHERE verdict_id = $id AND NOT success ORDER BY severity, expectation",
        {"id": batch["verdict_id"]},
    )
    parts = [
        f"**{_cell(batch['sentence'])}**",
        f"`{table}` batch `{batch['batch_id']}`: {batch['state']}, {batch['rows'] or 0:,} rows.",
        f"Judged {batch['evaluated_at']:%Y-%m-%d %H:%M} UTC in run `{batch['run_id']}`.",
        _table(_CHECKS, failed[:FAILED_SHOWN]) + (f"\n\n{len(failed) - FAILED_SHOWN} more failed." if len(failed) > FAILED_SHOWN else ""),
        _sample(views, table, str(batch["batch_id"])),
        "\n".join(f"- **{choice.capitalize()}**: {what}." for choice, what in choices.items()),
    ]
    return "\n\n".join(part for part in parts if part)


def _sample(views: LakeViews, table: TableId, batch_id: str) -> str:
    held = table.side("held")
    if table.layer == "gold" or not views.exists(held):
        return ""
    rows = views.rows(f"SELECT * FROM {held} WHERE _batch_id = $batch ORDER BY _rid LIMIT {SAMPLE_ROWS}", {"batch": batch_id})
    if not rows:
        return ""
    shown = "\n".join(mask_record(json.dumps(_values(row), default=str, ensure_ascii=False)) for row in rows)
    return f"Some of its rows, masked (each letter an x, each digit a 0):\n\n```\n{shown}\n```"


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the record says: no engine columns, nothing that is not there."""
    return {
        name: value for name, value in row.items() if value is not None and not name.startswith("_") and name not in ("raw", "verdict_id")
    }


def _table(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    lines = [columns, ["---"] * len(columns), *([_cell(row[name]) for name in columns] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    """A value that cannot end its cell or become markup."""
    text = "" if value is None else " ".join(str(value).split())
    for character in "\\|<>*_`[]":
        text = text.replace(character, "\\" + character)
    return text
