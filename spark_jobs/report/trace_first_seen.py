"""The last step of a record's way: is it the first event of one of its values?"""

from __future__ import annotations

from typing import Any

from spark_jobs.report.views import LakeViews
from spark_jobs.report.way import Trace
from spark_jobs.spec.pipeline import FirstSeenSpec, Pipeline


def first_seen(views: LakeViews, pipeline: Pipeline, spec: FirstSeenSpec, way: Trace, event: dict[str, Any]) -> bool:
    """Adds one step; False when the table has not looked at the event yet."""
    table, moment = pipeline.gold_table(spec), event[pipeline.silver.time]
    values = {kind: event[column] for kind, column in spec.kinds if event.get(column) is not None}
    rows = []
    if views.exists(table):
        sql = f"SELECT kind, value, first_event_at, _rid FROM {table} WHERE kind = $kind AND value = $value"
        rows = [row for kind, value in values.items() for row in views.rows(sql, {"kind": kind, "value": value})]
    if len(rows) < len(values) or any(row["first_event_at"] > moment for row in rows):
        way.add("gold", table, "waiting", "Not all of its values are looked at yet; the daily run does it.")
        return False
    if mine := [row for row in rows if row["_rid"] == way.rid]:
        told = ", ".join(f"{row['kind']} {row['value']}" for row in mine)
        way.add("gold", table, "counted", f"The first event of {told}.")
    else:
        way.add("gold", table, "not counted", f"Each of its values was seen before: {', '.join(sorted(values))}.")
    return True
