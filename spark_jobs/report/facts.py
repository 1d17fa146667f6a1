"""The facts of one run's report, as one JSON-able dict: everything the page shows is in here, and nothing else is looked up later."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from spark_jobs.report.batches import waiting_batches
from spark_jobs.report.files_of_run import files_of_run
from spark_jobs.report.health import health_of_run
from spark_jobs.report.outcome import flow, outcome_of_run, summary
from spark_jobs.report.progress import newest_event, progress
from spark_jobs.report.standing import did_anything, standing_of_run
from spark_jobs.report.tables_of_run import tables_of_run
from spark_jobs.report.views import LakeViews, in_list
from spark_jobs.spec.pipeline import GoldSpec, Pipeline
from spark_jobs.spec.settings import Settings

FORMAT = 1  # of report.json; raised when a field changes its meaning
BUSIEST = 8  # rows of each gold table; the tables themselves have all

_RUNS_SQL = """
SELECT pipeline, run_id, max(moment) AS moment FROM (
    SELECT pipeline, run_id, max(finished_at) AS moment FROM _ops.books GROUP BY ALL
    UNION ALL SELECT pipeline, run_id, max(evaluated_at) FROM _ops.verdicts GROUP BY ALL
    UNION ALL SELECT pipeline, run_id, max(read_at) FROM _ops.file_outcomes GROUP BY ALL
    UNION ALL SELECT pipeline, run_id, max(listed_at) FROM _ops.files GROUP BY ALL
    UNION ALL SELECT pipeline, run_id, max(audited_at) FROM _ops.audits GROUP BY ALL
    UNION ALL SELECT pipeline, run_id, max(amended_at) FROM _ops.amendments GROUP BY ALL
    UNION ALL SELECT pipeline, run_id, max(done_at) FROM _ops.maintenance GROUP BY ALL
) WHERE pipeline IN ({pipelines}) AND NOT starts_with(run_id, 'retry__') AND ($run_id = '' OR run_id = $run_id)
GROUP BY ALL ORDER BY moment DESC, run_id DESC LIMIT 1
"""


def latest_run(views: LakeViews, pipelines: list[str]) -> tuple[str, str] | None:
    """Pipeline and run id of the newest run that did anything; None when there was none."""
    rows = views.rows(_RUNS_SQL.format(pipelines=in_list(pipelines)), {"run_id": ""})
    return (rows[0]["pipeline"], rows[0]["run_id"]) if rows else None


def facts_of_run(settings: Settings, views: LakeViews, pipeline: Pipeline, run_id: str, now: datetime) -> dict[str, Any] | None:
    """What the run did, judged by the tables alone; None when it listed, read, judged, wrote, audited and maintained nothing."""
    files = files_of_run(settings, views, pipeline, run_id)
    tables = tables_of_run(views, pipeline, run_id)
    standing = standing_of_run(views, pipeline, run_id, now)
    if not tables and not files["counts"] and not did_anything(standing):
        return None
    waiting = [row for row in waiting_batches(views, pipeline=pipeline.name) if row["state"] in ("held", "stopped")]
    newest = newest_event(views, pipeline)
    return {
        "format": FORMAT,
        "pipeline": pipeline.name,
        "title": pipeline.title,
        "run_id": run_id,
        "ran_at": _last_sign_of(views, pipeline, run_id),
        "written_at": now,
        "outcome": outcome_of_run(tables, files, standing),
        "summary": summary(tables, files, standing),
        "flow": flow(pipeline, tables, files) if tables or files["counts"] else [],
        "tables": tables,
        "files": files,
        "waiting": waiting,
        **standing,
        "busiest": _busiest(views, pipeline, tables),
        "freshness": {
            "newest_event_at": newest,
            "age_minutes": round((now - newest).total_seconds() / 60, 1) if newest else None,
            "expected_minutes": pipeline.freshness.total_seconds() / 60,
        },
        "health": health_of_run(settings, pipeline, run_id, now),
        "progress": progress(settings, views, pipeline, now),
    }


def _last_sign_of(views: LakeViews, pipeline: Pipeline, run_id: str) -> datetime | None:
    """When the run last listed, read, judged or booked anything."""
    rows = views.rows(_RUNS_SQL.format(pipelines=in_list([pipeline.name])), {"run_id": run_id})
    return rows[0]["moment"] if rows else None


def _busiest(views: LakeViews, pipeline: Pipeline, tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with the highest counts, on the days whose events this run published."""
    silver = next((table for table in tables if table["table"] == str(pipeline.silver_table)), None)
    if silver is None or not views.exists(pipeline.silver_table):
        return []
    batches = in_list([batch["batch_id"].split(".")[0] for batch in silver["batches"]])
    days = views.rows(f"SELECT DISTINCT {pipeline.silver.date} AS day FROM {pipeline.silver_table} WHERE _batch_id IN ({batches})")
    if not days:
        return []
    dates = ", ".join(f"DATE '{row['day']}'" for row in days)
    return [_busiest_of(views, pipeline, spec, dates) for spec in pipeline.gold if views.exists(pipeline.gold_table(spec))]


def _busiest_of(views: LakeViews, pipeline: Pipeline, spec: GoldSpec, dates: str) -> dict[str, Any]:
    table = pipeline.gold_table(spec)
    # A row is told by its window, its group and its counts; when exactly its first and last event came is for the table.
    columns = [
        name
        for name in views.columns(table)
        if name not in ("window_end", "window_date") and not name.startswith("_") and not name.endswith("_at")
    ]
    order = ", ".join([f"{spec.counts} DESC", "window_start", *spec.grain])
    rows = views.rows(f"SELECT {', '.join(columns)} FROM {table} WHERE window_date IN ({dates}) ORDER BY {order} LIMIT {BUSIEST}")
    return {"table": str(table), "counts": spec.counts, "columns": columns, "rows": rows}
