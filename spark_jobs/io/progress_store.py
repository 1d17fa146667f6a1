"""`_ops.progress`: one row for each batch of each query, kept beyond the process and read by recent time alone.

A row is small and a day of continuous runs has twenty thousand of them, so nobody reads all: the statistics of the data files choose
those that may hold what is recent, and days older than `progress_days` are removed by whole files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from spark_jobs.io.lake import lake_table
from spark_jobs.io.ops import SCHEMAS, Ops
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import PROGRESS


class ProgressStore:
    """Reads and writes the rows of one lake."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows; `day` is that of `at`."""
        Ops(self._settings).append(PROGRESS, [{**row, "day": row["at"].astimezone(UTC).date()} for row in rows])

    def since(self, at: datetime, pipeline: str = "", columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of batches that ended at that instant or later, oldest first; of all pipelines when none is named."""
        equal = {"pipeline": pipeline} if pipeline else None
        names = list(dict.fromkeys([*(columns or SCHEMAS[PROGRESS].names), "at"]))
        return Ops(self._settings).read(PROGRESS, names, equal=equal, since={"at": at}).sort_by("at")

    def remove_old(self, now: datetime) -> str:
        """Remove the days that are older than `progress_days`: whole files, none is written anew. Returns what was done, in words."""
        kept_days = self._settings.progress_days
        day = (now - timedelta(days=kept_days)).date()
        found = lake_table(self._settings, PROGRESS)
        days = [] if found is None else pa.table(found.get_add_actions(flatten=True))["partition.day"].to_pylist()
        if found is None or not any(named and named < day for named in days):
            return ""
        files = found.delete(f"day < date '{day.isoformat()}'")["num_removed_files"]
        return f"{files:,} files of days older than {kept_days} left the table"
