"""The newest event that silver shows at a version, from the statistics of its files: no row is read."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.io.lake import lake_table
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings


def newest_event(settings: Settings, pipeline: Pipeline, silver_version: int | None = None) -> datetime | None:
    """To the millisecond, as the log has it; None when silver was never written or its log does not tell.

    Gold shows the events of the silver version that it names.
    """
    found = lake_table(settings, pipeline.silver_table, silver_version)
    if found is None:
        return None
    files = pa.table(found.get_add_actions(flatten=True))
    column = f"max.{pipeline.silver.time}"
    newest = pc.max(files[column]).as_py() if column in files.column_names else None
    return newest if newest is None or newest.tzinfo else newest.replace(tzinfo=UTC)
