"""Where each landed file stands: the ledger joined with its readings, computed by DuckDB so that millions of rows stay out of Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from spark_jobs.report.views import LakeViews, in_list

STATES = ("pending", "stopped", "ok", "failed", "ignored")
"""pending: listed, not read. stopped: read, but its batch is not booked (a gate stopped it). ok, failed: as read. ignored: not a log."""

# Windows over the whole ledger took three times as long: few files are ever read twice, so those few are found first.
_STATES_SQL = """
WITH retried AS (
    SELECT pipeline, file_id, max(attempt) AS last FROM _ops.files WHERE attempt > 1 AND {where} GROUP BY ALL
), ledger AS (
    SELECT files.* FROM _ops.files AS files LEFT JOIN retried USING (pipeline, file_id)
     WHERE {where} AND files.attempt = coalesce(retried.last, 1)
), reread AS (
    SELECT pipeline, file_id, attempt, max(read_at) AS last FROM _ops.file_outcomes WHERE {readings} GROUP BY ALL HAVING count(*) > 1
), readings AS (
    SELECT outcomes.* FROM _ops.file_outcomes AS outcomes LEFT JOIN reread USING (pipeline, file_id, attempt)
     WHERE {readings} AND outcomes.read_at = coalesce(reread.last, outcomes.read_at)
), booked AS (
    SELECT DISTINCT pipeline, batch_id FROM _ops.books WHERE layer = 'bronze'
), states AS (
    SELECT ledger.pipeline, ledger.path, ledger.size, ledger.file_id, ledger.modified_at, ledger.prefix_date, ledger.attempt,
           ledger.admitted, ledger.listed_at, ledger.run_id AS listed_by,
           CASE WHEN ledger.state = 'ignored' THEN 'ignored'
                WHEN readings.file_id IS NULL THEN 'pending'
                WHEN booked.batch_id IS NULL THEN 'stopped'
                ELSE readings.outcome END AS state,
           coalesce(readings.reason, ledger.reason) AS reason, readings.rule, readings.heals, readings.sha256, readings.inflated_bytes,
           readings.records, readings.quarantined, readings.notes, readings.batch_id, readings.run_id AS read_by, readings.read_at
      FROM ledger
      LEFT JOIN readings USING (pipeline, file_id, attempt)
      LEFT JOIN booked ON booked.pipeline = ledger.pipeline AND booked.batch_id = readings.batch_id
)
"""

MOST_NAMED = 2_000  # files that are looked up by name; beyond, one pass over all is as quick

_URGENT = "CASE state WHEN 'failed' THEN 0 WHEN 'stopped' THEN 1 WHEN 'pending' THEN 2 ELSE 3 END, listed_at DESC"


@dataclass(frozen=True, slots=True)
class FileFilter:
    """Which files are asked for; empty fields ask for all. `path` is a part of the path, or a pattern with * and ?."""

    pipeline: str = ""
    state: str = ""
    path: str = ""
    day: date | None = None
    run_id: str = ""

    def clauses(self) -> tuple[str, str, dict[str, Any]]:
        """SQL for the ledger rows, SQL for the resulting states, and the parameters of both."""
        ledger, states, parameters = ["true"], ["true"], dict[str, Any]()
        if self.pipeline:
            ledger.append("pipeline = $pipeline")
            parameters["pipeline"] = self.pipeline
        if self.path:
            globs = any(char in self.path for char in "*?")
            ledger.append("path GLOB $path" if globs else "contains(path, $path)")
            parameters["path"] = self.path
        if self.day:
            ledger.append("prefix_date = $day")
            parameters["day"] = self.day
        if self.run_id:
            states.append("$run_id IN (listed_by, read_by)")
            parameters["run_id"] = self.run_id
        if self.state:
            states.append("state = $state")
            parameters["state"] = self.state
        return " AND ".join(ledger), " AND ".join(states), parameters


def file_counts(views: LakeViews, wanted: FileFilter) -> list[dict[str, Any]]:
    """Per state: files, bytes (landed), records, quarantined, and the oldest listing time. Columns state, files, bytes, …"""
    sql, parameters = _sql(
        wanted,
        "SELECT state, count(*) AS files, sum(size) AS bytes, coalesce(sum(records), 0) AS records, "
        "coalesce(sum(quarantined), 0) AS quarantined, min(listed_at) AS oldest_listed_at "
        "FROM states WHERE {states} GROUP BY state ORDER BY state",
    )
    return views.rows(sql, parameters)


def file_states(views: LakeViews, wanted: FileFilter, limit: int) -> list[dict[str, Any]]:
    """At most `limit` files, failed and pending ones first, then the newest; by path where that leaves a choice."""
    # Which ones is found on narrow columns; only those are looked up in full.
    sql, parameters = _sql(wanted, f"SELECT file_id FROM states WHERE {{states}} ORDER BY {_URGENT}, file_id LIMIT {int(limit)}")
    chosen = [row["file_id"] for row in views.rows(sql, parameters)]
    if not chosen:
        return []
    known = f"file_id IN ({in_list(chosen)})" if len(chosen) <= MOST_NAMED else "true"
    sql, parameters = _sql(wanted, f"SELECT * FROM states WHERE {{states}} ORDER BY {_URGENT}, path LIMIT {int(limit)}", known)
    return views.rows(sql, parameters)


def _sql(wanted: FileFilter, select: str, known: str = "true") -> tuple[str, Mapping[str, Any]]:
    ledger, states, parameters = wanted.clauses()
    # Readings are narrowed by the same path and pipeline, which prunes them before the join; their dates are not those of the ledger.
    readings = " AND ".join([known, *(part for part in ledger.split(" AND ") if not part.startswith("prefix_date"))])
    return _STATES_SQL.format(where=f"{known} AND {ledger}", readings=readings) + select.format(states=states), parameters
