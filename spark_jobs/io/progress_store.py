"""`_ops.progress`: one row for each batch of each query, kept beyond the process and read by recent time alone.

A row is small and a day of continuous runs has twenty thousand of them, so nobody reads all: the statistics of the data files choose
those that may hold what is recent, and what is older than `progress_days` is removed whole file by file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.io.lake import lake_table
from spark_jobs.io.ops import SCHEMAS, Ops
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import PROGRESS


class ProgressStore:
    """Reads and writes the rows of one lake."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        Ops(self._settings).append(PROGRESS, rows)

    def since(self, at: datetime, pipeline: str = "", columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of batches that ended at that instant or later, oldest first; of all pipelines when none is named."""
        equal = {"pipeline": pipeline} if pipeline else None
        names = list(dict.fromkeys([*(columns or SCHEMAS[PROGRESS].names), "at"]))
        return Ops(self._settings).read(PROGRESS, names, equal=equal, since={"at": at}).sort_by("at")

    def remove_before(self, at: datetime) -> int:
        """Remove the rows of batches that ended before. Returns how many."""
        found = lake_table(self._settings, PROGRESS)
        if found is None:
            return 0
        files = pa.table(found.get_add_actions(flatten=True))
        if "min.at" in files.column_names and not pc.any(pc.less(files["min.at"], pa.scalar(at, files["min.at"].type))).as_py():
            return 0
        return int(found.delete(f"\"at\" < '{at:%Y-%m-%dT%H:%M:%S.%fZ}'").get("num_deleted_rows") or 0)
