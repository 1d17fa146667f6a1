"""Look: whether there are tables to look after, and whether the gold tables of days lack anything that silver has. Starts no JVM."""

from __future__ import annotations

from typing import Any

from spark_jobs.io.java_options import archive_options
from spark_jobs.io.lake import lake_table
from spark_jobs.io.work import silver_behind
from spark_jobs.jobs.run import Run, leave, run_job


def _work(run: Run, options: object) -> dict[str, Any]:
    """Say which daily gold tables are behind silver, and the Java options for a driver of the day's work."""
    daily = run.pipeline.gold_tables_of("daily")
    behind = [str(table) for table in daily if silver_behind(run.settings, run.pipeline, table)]
    has_tables = lake_table(run.settings, run.pipeline.silver_table) is not None
    if not has_tables:
        sentence = f"There is no {run.pipeline.silver_table} yet, so the day has nothing to do."
    else:
        sentence = f"Behind silver: {', '.join(behind)}." if behind else "Every gold table of days names silver's latest data."
    run.say(sentence)
    # The day's work reads whole tables: start-up is not what it costs.
    return {
        "has_tables": has_tables, "has_gold_work": bool(behind), "tables": behind,
        "java_options": archive_options(run.settings, small=False), "sentence": sentence,
    }  # fmt: skip


if __name__ == "__main__":
    leave(run_job("look", _work))
