"""Joining small files: rows stay as they are, so no reader sees a difference, and no stream sees a new row.

It takes no lease, since an hourly run must never wait or fail for it. Of two commits at once on one partition Delta lets one pass: if
it was the run's, this one is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

from deltalake.exceptions import CommitFailedError

from spark_jobs.io.delta_tables import spark_location
from spark_jobs.io.lake import lake_table
from spark_jobs.io.maintenance_files import SMALL_BYTES
from spark_jobs.jobs.run import Run
from spark_jobs.spec.tables import FILES, TableId

ATTEMPTS = 5  # the others are hourly runs and chunks of a backfill, seconds apart
DAYS_PER_COMMIT = 10  # what a killed or refused compaction has to do again
LARGE_BYTES = 128_000_000  # a joined file: four batches of bronze, one Parquet row group
FEW_OPS_FILES = 20  # a day of hourly runs leaves more in each


def compact_days(run: Run, table: TableId, column: str, days: Sequence[date]) -> int:
    """Join the small files of these partitions. Returns how many days were done; the others were being written all the time."""
    from delta.exceptions import DeltaConcurrentModificationException

    conf = {"minFileSize": SMALL_BYTES, "maxFileSize": LARGE_BYTES}
    for name, value in conf.items():
        run.spark.conf.set(f"spark.databricks.delta.optimize.{name}", str(value))
    done = 0
    try:
        for start in range(0, len(days), DAYS_PER_COMMIT):
            some = days[start : start + DAYS_PER_COMMIT]
            listed = ", ".join(f"date'{day.isoformat()}'" for day in some)
            statement = f"OPTIMIZE delta.`{spark_location(run.settings, table)}` WHERE {column} IN ({listed})"
            if _until_it_passes(lambda statement=statement: run.spark.sql(statement).collect(), DeltaConcurrentModificationException):
                done += len(some)
    finally:
        for name in conf:
            run.spark.conf.unset(f"spark.databricks.delta.optimize.{name}")
    return done


def compact_ops(run: Run, table: TableId) -> tuple[int, int]:
    """Join the files of an `_ops` table, if it has many, and write a checkpoint. Returns the number of files before and after.

    The ledger's files are left as they are: one of them is one bounded batch of bronze, also for a bronze that is built again.
    """
    found = lake_table(run.settings, table)
    if found is None:
        return 0, 0
    before = after = len(found.file_uris())
    if table != FILES and before > FEW_OPS_FILES:
        _until_it_passes(lambda: lake_table(run.settings, table).optimize.compact(target_size=LARGE_BYTES), CommitFailedError)  # type: ignore[union-attr]
        found = lake_table(run.settings, table)
        after = len(found.file_uris())  # type: ignore[union-attr]
    found.create_checkpoint()  # type: ignore[union-attr]
    return before, after


def _until_it_passes(commit: Callable[[], Any], conflict: type[BaseException]) -> bool:
    """False when each of the attempts met another commit."""
    for _ in range(ATTEMPTS):
        try:
            commit()
            return True
        except conflict:
            continue
    return False
