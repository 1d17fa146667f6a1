"""Daily gold: the gold tables that the hourly run leaves alone, each brought from the silver version it names to silver's latest one.

There is no stream and no checkpoint: a gold table's own log says how far it has come. A batch is named after the first silver version
that it takes in, so that a batch that was stopped keeps its name until it is committed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from spark_jobs.io.delta_log import latest_version
from spark_jobs.io.lease import Leases
from spark_jobs.io.work import named_silver_version, silver_behind
from spark_jobs.jobs.build_gold import build_batch
from spark_jobs.jobs.first_seen import build_first_seen
from spark_jobs.jobs.gold_batch import complete_books
from spark_jobs.jobs.gold_standing import gold_fault
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.jobs.run_layers import warm_up_gates
from spark_jobs.spec.errors import GateStopped
from spark_jobs.spec.tables import TableId


def build_daily_gold(run: Run) -> dict[str, Any]:
    """All daily gold tables up to silver's latest version; without anything new in silver no JVM is started.

    A table whose gate stops it does not keep the others back. Raises LeaseHeld, CheckpointDamaged, BooksUnbalanced.
    """
    pipeline, settings = run.pipeline, run.settings
    tables = pipeline.gold_tables_of("daily")
    stopped: list[str] = []
    built: list[str] = []
    if latest_version(settings, pipeline.silver_table) is None:
        run.say(f"gold: its source {pipeline.silver_table} has no data yet.")
        return {"tables": [], "stopped": None}
    with Leases(settings, tables, run.run_id) as leases:
        for table in tables:
            if (fault := gold_fault(run, table)) is not None:
                raise fault
        behind = [table for table in tables if silver_behind(settings, pipeline, table)]
        if behind and settings.gates:
            warm_up_gates()
        for table, bring_up in _builders(run, leases).items():
            if table not in behind:
                complete_books(run, table)
                continue
            try:
                bring_up()
                built.append(str(table))
            except GateStopped as stop:
                run.say(str(stop))
                stopped.append(str(stop))
    if not behind:
        run.say("gold: the daily tables have consumed all of silver.")
    return {"tables": built, "stopped": " ".join(stopped) or None}


def daily_batch_id(run: Run, table: TableId) -> str:
    """`daily-00000013`: the batch that takes in silver's version 13 and whatever came after it."""
    named = named_silver_version(run.settings, run.pipeline, table)
    return f"daily-{0 if named is None else named + 1:08d}"


def _builders(run: Run, leases: Leases) -> dict[TableId, Callable[[], None]]:
    """For each daily table what brings it up to silver."""
    pipeline = run.pipeline
    found: dict[TableId, Callable[[], None]] = {}
    for spec in pipeline.gold_of("daily"):
        batch_id = daily_batch_id(run, pipeline.gold_table(spec))
        found[pipeline.gold_table(spec)] = partial(build_batch, run, leases, batch_id, (spec,))
    if (seen := pipeline.first_seen) is not None:
        batch_id = daily_batch_id(run, pipeline.gold_table(seen))
        found[pipeline.gold_table(seen)] = partial(build_first_seen, run, leases, batch_id, seen)
    return found


def _work(run: Run, options: object) -> dict[str, Any]:
    """Bring the daily gold tables up to silver's latest version, through gold's gates."""
    try:
        done = build_daily_gold(run)
    finally:
        if run.has_session:
            run.spark.stop()
    names = ", ".join(done["tables"]) or "no table"
    return done | {"sentence": done["stopped"] or f"Daily gold: {names} brought up to silver."}


if __name__ == "__main__":
    leave(run_job("build_daily_gold", _work))
