"""Verify a backfill: gold equals a batch over silver for its whole range, what each day held before and holds now, and what it took."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import date
from typing import Any

from spark_jobs.io.backfill_store import BackfillStore
from spark_jobs.jobs.audit import AuditResult, audit
from spark_jobs.jobs.backfill_figures import figures_by_day
from spark_jobs.jobs.backfill_page import verify_page
from spark_jobs.jobs.build_daily_gold import build_daily_gold
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.jobs.turns import Turns
from spark_jobs.spec.backfill import OPEN
from spark_jobs.spec.errors import BooksUnbalanced, ConfigurationFault

Row = dict[str, Any]


def verify(run: Run, backfill_id: str) -> Row:
    """Bring the daily tables up to silver, compare all gold of the range, and record the result as a state of the backfill.

    `is_equal` says what the audit found. Raises ConfigurationFault while chunks are open, TurnNeverCame.
    """
    store = BackfillStore(run.settings, run.clock)
    backfill, chunks = store.get(backfill_id), store.chunks(backfill_id)
    if left := [chunk["chunk"] for chunk in chunks if chunk["state"] in OPEN]:
        raise ConfigurationFault(
            f"Backfill {backfill_id} is not finished: {len(left)} of {len(chunks)} chunks are left. Run or cancel them, then verify."
        )
    details = json.loads(backfill["plan"])
    days = [date.fromisoformat(day["date"]) for day in details["days"]]
    run.backfill_id, run.small = backfill_id, (backfill["bytes"] or 0) <= run.settings.small_mb * 1_000_000
    daily = Turns(run).take(lambda: build_daily_gold(run))  # the chunks bring up the hourly tables alone
    results = audit(run, dates=days)
    is_equal = all(result.is_equal for result in results)
    after = figures_by_day(run, days)
    row = store.note(backfill_id, "verified" if is_equal else "unequal", plan=json.dumps({**details, "after": after}))
    return {
        "backfill_id": backfill_id, "is_equal": is_equal, "sentence": " ".join(filter(None, (_sentence(row, results), daily["stopped"]))),
        "markdown": verify_page(row, details.get("before") or {}, after, [(str(one.table), one.cells, one.mismatched) for one in results]),
    }  # fmt: skip


def _sentence(row: Row, results: Sequence[AuditResult]) -> str:
    cells = sum(result.cells for result in results)
    wrong = [f"{result.table}: {result.mismatched} of {result.cells}" for result in results if not result.is_equal]
    equal = f"gold equals a batch over silver in all {cells:,} cells of the range" if not wrong else f"gold differs ({'; '.join(wrong)})"
    took = ""
    if row["actual_s"]:
        ratios = (ratio(row["actual_s"], row["predicted_s"]), ratio(row["actual_cpu_s"], row["predicted_cpu_s"]))
        took = (
            f" It took {row['actual_s']:,.0f} s and {row['actual_cpu_s']:,.0f} CPU-seconds, "
            f"{ratios[0]} and {ratios[1]} times what was predicted."
        )
    return f"{row['backfill_id']}: {equal}.{took}"


def ratio(actual: float | None, predicted: float | None) -> str:
    return f"{actual / predicted:.2f}" if actual and predicted else "?"


def _work(run: Run, options: argparse.Namespace) -> Row:
    """Compare gold with a batch over silver for the range of a backfill."""
    try:
        found = verify(run, options.backfill)
    finally:
        if run.has_session:
            run.spark.stop()
    run.say(found["sentence"])
    if not found["is_equal"]:
        raise BooksUnbalanced(f"{found['sentence']} `assay audit` names the cells; recompute those dates, then verify again.")
    return found


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backfill", required=True, help="the id that the plan gave")


if __name__ == "__main__":
    leave(run_job("backfill_verify", _work, _add_options))
