"""The suite over whole tables: uniqueness, the layers against each other for a day, volume, freshness. Writes verdicts and nothing else."""

from __future__ import annotations

import argparse
import importlib
import time
from datetime import date
from typing import Any

from spark_jobs.io.delta_tables import read_table
from spark_jobs.io.lake import lake_table
from spark_jobs.jobs.publishing import record_verdict
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.jobs.table_facts import day_of_files, facts_of_day, is_small, layers
from spark_jobs.spec.books import Books
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.gates import GatePolicy

# The tables are published already: nothing can be held back any more, only said.
POLICY = GatePolicy(critical="stop", warning="warn", info="warn")
COUNTS = 3  # a run beside this one moves rows from table to table between two counts
BETWEEN_S = 5.0


def check_tables(run: Run, day: date | None = None) -> dict[str, Any]:
    """Judge all tables of the pipeline for a day, by default yesterday. Returns `outcome`, `sentence`, `day`, `batch_id`, `facts`.

    The verdict is recorded under the silver table with the layer `tables`; its gate task turns red on `stop`. The outcome is `none`
    when no file was read on any day.
    """
    from expectations.gate import evaluate

    silver = run.pipeline.silver_table
    files = day_of_files(run, day)
    if files is None or lake_table(run.settings, silver) is None:
        on = f" on {day}" if day else ""
        sentence = f"No file was read{on} and brought to silver, so there is nothing to check."
        return {"outcome": "none", "sentence": sentence, "day": day, "batch_id": None, "facts": {}}
    run.small = run.small or is_small(run)
    facts = facts_of_day(run, files)
    for _ in range(COUNTS - 1):
        if _agrees(facts):
            break
        time.sleep(BETWEEN_S)
        facts |= layers(run, files)
    suites = importlib.import_module(f"expectations.{run.pipeline.name}.tables")
    suite = suites.suite(silver.name.removeprefix(f"{run.pipeline.name}_"), facts)
    batch_id = f"tables-{files.day}"
    verdict = evaluate(
        read_table(run.spark, run.settings, silver).select(run.pipeline.silver.key, run.pipeline.silver.date),
        suite=suite, policy=POLICY, table=str(silver), batch_id=batch_id,
        books=Books(0, 0, files_read=len(files.file_ids), files_ok=len(files.file_ids)),  # files were read, so an empty table can be right
        facts=facts, is_published=True,
    )  # fmt: skip
    record_verdict(run, "tables", silver, verdict)
    run.say(verdict.sentence)
    return {"outcome": verdict.outcome, "sentence": verdict.sentence, "day": files.day, "batch_id": batch_id, "facts": facts}


def _agrees(facts: dict[str, Any]) -> bool:
    across = facts["in_bronze"] == facts["records"] and facts["in_silver"] == facts["bronze_rows"]
    return across and all(counted == expected for counted, expected in facts["gold"].values())


def _work(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """Check whole tables against each other, for one day of arrivals."""
    try:
        return check_tables(run, options.date)
    finally:
        if run.has_session:
            run.spark.stop()


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ConfigurationFault(f"'{text}' is not a date; write it as 2024-05-01.") from None


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--date", type=_day, default=None, help="the day whose files are followed; default: yesterday")


if __name__ == "__main__":
    leave(run_job("check_tables", _work, _add_options))
