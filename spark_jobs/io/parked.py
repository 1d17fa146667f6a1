"""Parked events whose time has come: asked before each run, without a JVM, from the statistics of the quarantine's files."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.io.lake import lake_table, rows_that_may
from spark_jobs.io.ops import Ops
from spark_jobs.spec.fingerprints import fingerprint, shape
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import DISMISSALS

_TIME = pa.timestamp("us", tz="UTC")
_COLUMNS = pa.schema({"_rid": pa.string(), "rule": pa.string(), "reason": pa.string(), "due_at": _TIME, "_ingested_at": _TIME})


def due_rids(settings: Settings, pipeline: Pipeline, now: datetime) -> list[str]:
    """The `_rid`s of the parked records of silver's quarantine that are due and that no person has rejected, sorted."""
    found = lake_table(settings, pipeline.silver_table.side("quarantine"))
    if found is None or "due_at" not in [field.name for field in found.schema().fields]:
        return []
    due = pc.field("due_at") <= pa.scalar(now, _TIME)
    rows = rows_that_may(found, _COLUMNS, {}, present=["due_at"]).to_table(filter=due).to_pylist()
    if not rows:
        return []
    table = str(pipeline.silver_table)
    dismissed = Ops(settings).read(DISMISSALS, ["fingerprint", "up_to"], pc.field("table") == table).to_pylist()
    up_to: dict[str, datetime] = {}
    for row in dismissed:
        up_to[row["fingerprint"]] = max(row["up_to"], up_to.get(row["fingerprint"], row["up_to"]))

    def is_rejected(row: dict[str, datetime | str]) -> bool:
        last = up_to.get(fingerprint(table, str(row["rule"]), shape(str(row["reason"]))))
        return last is not None and row["_ingested_at"] <= last  # type: ignore[operator]  # a time, by the table's schema

    return sorted(row["_rid"] for row in rows if not is_rejected(row))
