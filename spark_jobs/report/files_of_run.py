"""Which files a run listed and read, and what came from each of them."""

from __future__ import annotations

from typing import Any

from spark_jobs.report.views import LakeViews
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId

MOST_FILES = 300  # a page that a phone can scroll; the ledger has them all (`assay files --run-id`)

_RUN_FILES_SQL = """
WITH listed AS (
    SELECT path, file_id, attempt, size, state, reason, listed_at FROM _ops.files WHERE pipeline = $pipeline AND run_id = $run_id
), read AS (
    SELECT path, file_id, attempt, outcome, rule, reason, heals, sha256, bytes, records, quarantined, notes, batch_id, read_at
      FROM _ops.file_outcomes WHERE pipeline = $pipeline AND run_id = $run_id
), known AS (
    SELECT coalesce(read.path, listed.path) AS path, coalesce(read.file_id, listed.file_id) AS file_id,
           coalesce(read.bytes, listed.size) AS bytes,
           coalesce(read.attempt, listed.attempt) AS attempt, read.sha256, read.records, read.quarantined, read.rule, read.heals,
           coalesce(read.reason, listed.reason) AS reason, read.notes, read.batch_id,
           listed.path IS NOT NULL AS is_new,
           CASE WHEN read.outcome IS NOT NULL THEN read.outcome WHEN listed.state = 'ignored' THEN 'ignored' ELSE 'not read' END AS state
      FROM listed FULL OUTER JOIN read ON read.file_id = listed.file_id AND read.attempt = listed.attempt
)
"""

_FIRST = "CASE state WHEN 'failed' THEN 0 WHEN 'not read' THEN 1 WHEN 'ok' THEN 2 ELSE 3 END, path, attempt"


def files_of_run(settings: Settings, views: LakeViews, pipeline: Pipeline, run_id: str) -> dict[str, Any]:
    """`counts` per state, and at most MOST_FILES `rows` (failed ones first), each with what silver made of its records so far.

    `path` is relative to the landing root. Columns of a row: path, bytes, attempt, state, records, quarantined, silver, duplicates,
    silver_quarantined, sha256, reason, notes, is_new.
    """
    asked = {"pipeline": pipeline.name, "run_id": run_id}
    counts = {
        row["state"]: row["files"] for row in views.rows(f"{_RUN_FILES_SQL} SELECT state, count(*) AS files FROM known GROUP BY ALL", asked)
    }
    new = views.rows("SELECT count(*) AS n FROM _ops.files WHERE pipeline = $pipeline AND run_id = $run_id AND state = 'listed'", asked)[0][
        "n"
    ]
    rows = views.rows(f"{_RUN_FILES_SQL} SELECT * FROM known ORDER BY {_FIRST} LIMIT {MOST_FILES}", asked)
    silver = pipeline.silver_table
    paths = [row["path"] for row in rows if row["state"] == "ok"]
    found = {
        "silver": _per_file(views, silver, paths),
        "duplicates": _per_file(views, silver.side("duplicates"), paths),
        "silver_quarantined": _per_file(views, silver.side("quarantine"), paths),
    }
    root = settings.landing_root.rstrip("/") + "/"
    for row in rows:
        for name, counted in found.items():
            row[name] = counted.get(row["file_id"], 0) if row["state"] == "ok" else None
        row["path"] = row["path"].removeprefix(root)
    return {"counts": counts, "new": new, "rows": rows, "omitted": sum(counts.values()) - len(rows)}


def _per_file(views: LakeViews, table: TableId, paths: list[str]) -> dict[str, int]:
    """Rows of the table per file id."""
    if not paths or not views.exists(table):
        return {}
    # A path can have several versions, each a file of its own: the file id is the first part of the record id.
    counted = f"SELECT split_part(_rid, ':', 1) AS file_id, count(*) AS n FROM {table}"
    rows = views.rows(f"{counted} WHERE _source_file IN (SELECT unnest($paths)) GROUP BY ALL", {"paths": paths})
    return {row["file_id"]: row["n"] for row in rows}
