"""List quarantine: how many quarantined records a replay would read again. Starts no JVM."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from spark_jobs.io.java_options import archive_options
from spark_jobs.io.lake import lake_table
from spark_jobs.jobs.replay_quarantine import add_replay_options, chosen_rids
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.spec.tables import TableId

SMALL_RECORDS = 100_000  # up to this many, start-up is what the driver costs


def _work(run: Run, options: Namespace) -> dict[str, Any]:
    """Count the quarantined records of a table, a rule or a group."""
    table = TableId.parse(options.table) if options.table else run.pipeline.silver_table
    count = 0
    if lake_table(run.settings, table.side("quarantine")) is not None:
        count = len(chosen_rids(run, table, run.clock(), rule=options.rule, name=options.fingerprint))
    chosen = [f"{name} {value}" for name, value in (("rule", options.rule), ("group", options.fingerprint)) if value]
    scope = f" ({', '.join(chosen)})" if chosen else ""
    sentence = f"{table}: {count:,} quarantined records to read again{scope}."
    run.say(sentence)
    return {"count": count, "java_options": archive_options(run.settings, small=count < SMALL_RECORDS), "sentence": sentence}


if __name__ == "__main__":
    leave(run_job("list_quarantine", _work, add_replay_options))
