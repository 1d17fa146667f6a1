"""How the batches went, for the charts of a report: those of the run, and those of the 24 hours before it was written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from spark_jobs.io.ops import Ops
from spark_jobs.io.progress_store import ProgressStore
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import PROGRESS

Row = dict[str, Any]

DAY = timedelta(hours=24)
MOST_POINTS = 96  # of one chart: a quarter of an hour each for a day; more bars than that are hairlines

# Spark's phases of a batch by what a reader can do about them.
PHASES = {
    "work": ("addBatch",),
    "checkpoint": ("walCommit", "commitOffsets", "commitBatch"),
    "looking for data": ("latestOffset", "getBatch", "setOffsetRange", "getEndOffset", "getOffset"),
    "planning": ("queryPlanning",),
}
OTHER = "other"


def health_of_run(settings: Settings, pipeline: Pipeline, run_id: str, now: datetime) -> Row:
    """Keys `run` and `day`: each a list of queries in data order, with `points` for the charts; empty where nothing is known.

    A point is one batch, or where there are more than MOST_POINTS what batches of an equal length of time did together.
    """
    mine = Ops(settings).read(PROGRESS, equal={"pipeline": pipeline.name, "run_id": run_id}).sort_by("at").to_pylist()
    day = [row for row in ProgressStore(settings).since(now - DAY, pipeline.name).to_pylist() if row["at"] <= now]
    return {"run": _queries(pipeline, mine), "day": _queries(pipeline, day)}


def _queries(pipeline: Pipeline, rows: Sequence[Row]) -> list[Row]:
    found = []
    for table in (str(pipeline.bronze_table), str(pipeline.silver_table), str(pipeline.gold_stream)):
        own = [row for row in rows if row["table"] == table and row["phases"]]
        if own:
            points, bucket = _points(own)
            rows_read = sum(row["input_rows"] or 0 for row in own)
            found.append({"table": table, "batches": len(own), "rows": rows_read, "bucket_s": bucket, "points": points})
    return found


def _points(rows: Sequence[Row]) -> tuple[list[Row], int | None]:
    """The points, and the seconds that each of them stands for (None: each is a batch)."""
    if len(rows) <= MOST_POINTS:
        return [_point([row], None) for row in rows], None
    first, last = rows[0]["at"], rows[-1]["at"]
    length = max(1, -(-int((last - first).total_seconds() + 1) // MOST_POINTS))
    buckets: dict[int, list[Row]] = {}
    for row in rows:
        buckets.setdefault(int((row["at"] - first).total_seconds()) // length, []).append(row)
    return [_point(members, length) for _, members in sorted(buckets.items())], length


def _point(rows: Sequence[Row], length_s: int | None) -> Row:
    last = rows[-1]
    took = sum(row["duration_ms"] for row in rows)
    read = sum(row["input_rows"] or 0 for row in rows)
    into = read / length_s if length_s else last["input_rows_per_s"]
    lags = [row["lag_minutes"] for row in rows if row["lag_minutes"] is not None]
    files = [row["lag_files"] for row in rows if row["lag_files"] is not None]
    sizes = [row["batch_bytes"] for row in rows if row["batch_bytes"] is not None]
    return {
        "at": last["at"],
        "batch_id": last["batch_id"],
        "batches": len(rows),
        "rows": read,
        "in_per_s": _rounded(into),
        "done_per_s": _rounded(read * 1000 / took) if took else None,
        "seconds": _rounded(took / 1000 / len(rows)),
        "phases": _phases(rows),
        "bytes": round(sum(sizes) / len(sizes)) if sizes else None,
        "limit": last["batch_limit"],
        "lag_minutes": _rounded(max(lags, default=None)),
        "lag_files": max(files, default=None),
    }


def _phases(rows: Sequence[Row]) -> dict[str, float]:
    """Seconds of a batch, on average, by the groups of PHASES and the rest."""
    totals = dict.fromkeys([*PHASES, OTHER], 0.0)
    for row in rows:
        said: dict[str, int] = json.loads(row["phases"])
        rest = row["duration_ms"]
        for group, names in PHASES.items():
            ms = sum(said.get(name, 0) for name in names)
            totals[group] += ms
            rest -= ms
        totals[OTHER] += max(0, rest)
    return {name: round(ms / 1000 / len(rows), 3) for name, ms in totals.items()}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
