"""How far each table is: rows, version, last batch, last gate, and how much of its source it has not consumed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from spark_jobs.io.lake import lake_table
from spark_jobs.io.work import pending_files
from spark_jobs.report.batches import waiting_batches
from spark_jobs.report.file_states import FileFilter, file_counts
from spark_jobs.report.views import LakeViews
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId

_NEWEST_SQL = """
SELECT "table", arg_max(batch_id, finished_at) AS batch_id, arg_max(run_id, finished_at) AS run_id, max(finished_at) AS finished_at,
       max(source_version) AS source_version, count(*) AS batches, bool_and(is_balanced) AS is_balanced
  FROM _ops.books WHERE pipeline = $pipeline GROUP BY "table"
"""

_GATES_SQL = """
SELECT "table", arg_max(outcome, evaluated_at) AS outcome, arg_max(sentence, evaluated_at) AS sentence, max(evaluated_at) AS evaluated_at
  FROM _ops.verdicts WHERE pipeline = $pipeline AND layer <> 'tables' GROUP BY "table"
"""

# What the layer before has committed since the version this table last consumed. Its landed bytes are known where it is bronze.
_BEHIND_SQL = """
SELECT coalesce(sum(books.written), 0) AS rows, coalesce(sum(books.files_ok), 0) AS files, min(books.finished_at) AS since,
       coalesce(sum((SELECT sum(bytes) FROM _ops.file_outcomes AS read
                      WHERE read.pipeline = books.pipeline AND read.batch_id = books.batch_id AND books.layer = 'bronze')), 0) AS bytes
  FROM _ops.books AS books
 WHERE books."table" = $source AND books.written > 0 AND books.target_version > $consumed
"""


def progress(settings: Settings, views: LakeViews, pipeline: Pipeline, now: datetime) -> list[dict[str, Any]]:
    """One dict per table of the pipeline, in data order: `table`, `cadence`, `rows`, `version`, `batch_id`, `finished_at`, `lag`, `gate`,
    `waiting`.

    `lag` has `files`, `bytes`, `rows` (None for bronze: not known before the files are read) and `minutes` (since the oldest thing not
    consumed was listed or committed). `rows` comes from the
    Delta log; it is None for a table that was never written.
    """
    asked = {"pipeline": pipeline.name}
    newest = {row["table"]: row for row in views.rows(_NEWEST_SQL, asked)}
    gates = {row["table"]: row for row in views.rows(_GATES_SQL, asked)}
    waiting = waiting_batches(views, pipeline=pipeline.name)
    found, daily = [], pipeline.gold_tables_of("daily")
    for table in pipeline.all_tables:
        batch, gate, delta = newest.get(str(table), {}), gates.get(str(table), {}), lake_table(settings, table)
        found.append(
            {
                "pipeline": pipeline.name,
                "table": str(table),
                "cadence": "daily" if table in daily else "hourly",
                "rows": views.rows(f"SELECT count(*) AS n FROM {table}")[0]["n"] if delta else None,
                "version": delta.version() if delta else None,
                "batches": batch.get("batches", 0),
                "batch_id": batch.get("batch_id"),
                "run_id": batch.get("run_id"),
                "finished_at": batch.get("finished_at"),
                "is_balanced": batch.get("is_balanced"),
                "lag": _lag(settings, views, pipeline, table, batch, now),
                "gate": {"outcome": gate.get("outcome"), "sentence": gate.get("sentence"), "evaluated_at": gate.get("evaluated_at")},
                "waiting": [f"{row['batch_id']} {row['state']}" for row in waiting if row["table"] == str(table)],
            }
        )
    return found


def newest_event(views: LakeViews, pipeline: Pipeline) -> datetime | None:
    """The latest event time in silver, from its newest date partition alone; None when there is none."""
    table, spec = pipeline.silver_table, pipeline.silver
    if not views.exists(table):
        return None
    newest_date = f"(SELECT max({spec.date}) FROM {table})"
    found: datetime | None = views.rows(f"SELECT max({spec.time}) AS newest FROM {table} WHERE {spec.date} = {newest_date}")[0]["newest"]
    return found


def _lag(settings: Settings, views: LakeViews, pipeline: Pipeline, table: TableId, batch: dict[str, Any], now: datetime) -> dict[str, Any]:
    if table.layer == "bronze":
        pending = pending_files(settings, pipeline)
        files, size, rows, since = pending.files, pending.bytes, None, None
        if files:
            unread = [row for row in file_counts(views, FileFilter(pipeline.name)) if row["state"] in ("pending", "stopped")]
            since = min((row["oldest_listed_at"] for row in unread), default=None)
    else:
        source = pipeline.bronze_table if table.layer == "silver" else pipeline.silver_table
        consumed = batch.get("source_version")
        asked = {"source": str(source), "consumed": -1 if consumed is None else consumed}
        behind = views.rows(_BEHIND_SQL, asked)[0]
        files, size, rows, since = behind["files"], behind["bytes"], behind["rows"], behind["since"]
    minutes = round((now - since).total_seconds() / 60, 1) if since else 0.0
    return {"files": files, "bytes": size, "rows": rows, "minutes": max(0.0, minutes)}
