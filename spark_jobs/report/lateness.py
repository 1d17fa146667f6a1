"""How late events come, from silver; and what late events changed in windows that had settled, from `_ops.amendments`."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from spark_jobs.report.views import LakeViews
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.windows import BUCKET_S

QUANTILES = {"p50_s": 0.5, "p95_s": 0.95, "p99_s": 0.99, "p999_s": 0.999}
BOUNDS = {"bound_99_s": 0.99, "bound_999_s": 0.999}

# How long after an event it was taken in; and how long after the end of the first window that ends after it (the strictest of all: a
# window of any length that holds the event ends there or later). A file that a person had read again counts as it first came.
_SQL = """
WITH admitted AS (
    SELECT file_id, bool_or(admitted = 'live') AS is_live FROM _ops.files
     WHERE pipeline = $pipeline AND admitted <> 'retry' GROUP BY file_id
), arrivals AS (
    SELECT account_id, aws_region, epoch({taken_in}) - epoch({time}) AS late_s,
           greatest(0, epoch({taken_in}) - (floor(epoch({time}) / $bucket) + 1) * $bucket) AS bound_s
      FROM {silver} AS events
     WHERE $all OR split_part(events._rid, ':', 1) IN (SELECT file_id FROM admitted WHERE is_live)
)
SELECT {names}, count(*) AS events, {quantiles}, max(late_s) AS max_s, {bounds} FROM arrivals {grouping}
"""

_AMENDMENTS = """
SELECT * FROM _ops.amendments
 WHERE pipeline IN ({pipelines}) AND ($table = '' OR "table" = $table) AND ($since IS NULL OR amended_at >= $since)
 ORDER BY amended_at DESC, "table", window_start DESC, key LIMIT $limit
"""


def amendments(
    views: LakeViews, pipelines: list[Pipeline], *, table: str = "", since: datetime | None = None, limit: int = 20
) -> list[dict[str, Any]]:
    """Changes of settled windows, newest first; `key`, `before`, `after` and `files` as values, not as JSON text."""
    names = ", ".join(f"'{one.name}'" for one in pipelines)
    rows = views.rows(_AMENDMENTS.format(pipelines=names), {"table": table, "since": since, "limit": limit})
    return [row | {name: json.loads(row[name]) if row[name] else None for name in ("key", "before", "after", "files")} for row in rows]


def distribution(views: LakeViews, pipeline: Pipeline, *, everything: bool = False) -> list[dict[str, Any]]:
    """Lateness in seconds per account and region, then of all together (`account_id` and `aws_region` null); busiest first.

    Keys: events, p50_s, p95_s, p99_s, p999_s, max_s; bound_99_s, bound_999_s: the lateness bound under which 99 % and 99.9 % of the events
    would have come before their windows settled; declared_s: the pipeline's. Without `everything` only what was admitted live.
    """
    if not views.exists(pipeline.silver_table):
        return []
    asked = {"pipeline": pipeline.name, "bucket": BUCKET_S, "all": everything}
    parts = {
        "silver": pipeline.silver_table, "time": pipeline.silver.time, "taken_in": "_ingested_at",
        "quantiles": ", ".join(f"quantile_disc(late_s, {share}) AS {name}" for name, share in QUANTILES.items()),
        "bounds": ", ".join(f"quantile_disc(bound_s, {share}) AS {name}" for name, share in BOUNDS.items()),
    }  # fmt: skip
    grouped = _SQL.format(**parts, names="account_id, aws_region", grouping="GROUP BY ALL ORDER BY events DESC, account_id, aws_region")
    rows = views.rows(grouped, asked) + views.rows(_SQL.format(**parts, names="NULL AS account_id, NULL AS aws_region", grouping=""), asked)
    declared = pipeline.lateness.total_seconds()
    return [
        {name: round(value, 1) if isinstance(value, float) else value for name, value in row.items()} | {"declared_s": declared}
        for row in rows
        if row["events"]
    ]
