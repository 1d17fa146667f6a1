"""What stands beside the batches in a report: the audit, whole tables, amendments, quarantine, backfills and maintenance.

Each is what the run itself did, or where the run did nothing of the kind, what waits for a person.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from spark_jobs.report.quarantine_groups import recent_groups
from spark_jobs.report.views import LakeViews
from spark_jobs.spec.pipeline import Pipeline

SHOWN = 10  # rows of each list; the tables themselves have all
OVER = ("done", "cancelled")  # a backfill in one of these states waits for nothing

_MINE = "pipeline = $pipeline AND run_id = $run_id"


def standing_of_run(views: LakeViews, pipeline: Pipeline, run_id: str, now: datetime) -> dict[str, Any]:
    """Keys: audits, whole_tables, amendments, quarantine, backfills, maintenance. Each is a list or dict, empty where there is nothing."""
    asked = {"pipeline": pipeline.name, "run_id": run_id}
    return {
        "audits": _audits(views, asked),
        "whole_tables": _whole_tables(views, asked),
        "amendments": _amendments(views, asked),
        "quarantine": _quarantine(views, pipeline, now),
        "backfills": _backfills(views, pipeline, now),
        "maintenance": _maintenance(views, asked),
    }


def did_anything(standing: dict[str, Any]) -> bool:
    """True when the run itself audited, judged whole tables, amended or maintained."""
    return bool(standing["audits"] or standing["whole_tables"] or standing["amendments"]["count"] or standing["maintenance"]["rows"])


def _audits(views: LakeViews, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """One per gold table that the run audited, those that differ first."""
    rows = views.rows(f'SELECT * FROM _ops.audits WHERE {_MINE} ORDER BY is_equal, "table", audited_at', asked)
    return [{**row, "cells_shown": _listed(row["mismatches"])[:SHOWN]} for row in rows]


def _whole_tables(views: LakeViews, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Each verdict on whole tables, with its expectations, failed ones first."""
    rows = views.rows(
        f"SELECT * FROM _ops.verdicts WHERE {_MINE} AND layer = 'tables' "
        'QUALIFY evaluated_at = max(evaluated_at) OVER (PARTITION BY "table", batch_id) ORDER BY batch_id, success, severity, expected',
        asked,
    )
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        verdict = found.setdefault(
            (row["table"], row["batch_id"]),
            {name: row[name] for name in ("table", "batch_id", "outcome", "sentence", "evaluated_at")} | {"checks": []},
        )
        names = ("expectation", "column", "severity", "success", "expected", "observed", "element_count", "unexpected_count", "exception")
        verdict["checks"].append(
            {name: row[name] for name in names} | {"samples": _listed(row["sample"]), "failed_batches": [], "batches": 1}
        )
    return list(found.values())


def _amendments(views: LakeViews, asked: dict[str, Any]) -> dict[str, Any]:
    """What the run changed in windows that had settled: how much per table, and the latest of them."""
    tables = views.rows(
        'SELECT "table", count(*) AS count, count(DISTINCT window_start) AS windows, sum(events) AS events, max(late_s) AS latest_s, '
        f'string_agg(DISTINCT brought_by, \', \') AS brought_by FROM _ops.amendments WHERE {_MINE} GROUP BY "table" ORDER BY "table"',
        asked,
    )
    rows = views.rows(
        'SELECT "table", window_start, window_end, key, before, after, events, late_s, brought_by '
        f'FROM _ops.amendments WHERE {_MINE} ORDER BY late_s DESC, "table", window_start LIMIT {SHOWN}',
        asked,
    )
    for row in rows:
        row |= {"key": _object(row["key"]), "changes": _changes(row.pop("before"), row.pop("after"))}
    return {"count": sum(table["count"] for table in tables), "tables": tables, "rows": rows}


def _quarantine(views: LakeViews, pipeline: Pipeline, now: datetime) -> dict[str, Any]:
    """The open groups of the last eight days, growing ones first: a report must not cost more with every year of quarantine."""
    groups = recent_groups(views, now, pipeline.name)
    names = (
        "fingerprint", "table", "rule", "reason", "count", "first_seen", "last_seen", "last_24h", "mean_per_day", "is_growing", "state",
    )  # fmt: skip
    return {
        "groups": [{name: group[name] for name in names} for group in groups[:SHOWN]],
        "omitted": max(0, len(groups) - SHOWN),
        "growing": sum(bool(group["is_growing"]) for group in groups),
        "rows": sum(group["count"] for group in groups),
    }


def _backfills(views: LakeViews, pipeline: Pipeline, now: datetime) -> list[dict[str, Any]]:
    """Backfills under way, and those whose state changed within a day: each with how many of its chunks are in which state."""
    rows = views.rows(
        "SELECT * FROM _ops.backfills WHERE pipeline = $pipeline "
        'QUALIFY "at" = max("at") OVER (PARTITION BY backfill_id) ORDER BY "at" DESC',
        {"pipeline": pipeline.name},
    )
    recent = [row for row in rows if row["state"] not in OVER or now - row["at"] < timedelta(days=1)][:SHOWN]
    for row in recent:
        states = views.rows(
            'SELECT state, count(*) AS count FROM (SELECT chunk, arg_max(state, "at") AS state FROM _ops.backfill_chunks '
            "WHERE backfill_id = $id GROUP BY chunk) GROUP BY state ORDER BY state",
            {"id": row["backfill_id"]},
        )
        row["chunk_states"] = {one["state"]: one["count"] for one in states}
    names = (
        "backfill_id", "what", "state", "from_date", "to_date", "who", "chunks", "chunk_states", "files", "records", "predicted_s",
        "actual_s", "at",
    )  # fmt: skip
    return [{name: row[name] for name in names} for row in recent]


def _maintenance(views: LakeViews, asked: dict[str, Any]) -> dict[str, Any]:
    """What the run's maintenance did, and for whom it left something."""
    rows = views.rows(f'SELECT * FROM _ops.maintenance WHERE {_MINE} ORDER BY done_at, "table", action', asked)
    whole = [row for row in rows if row["action"] == "all"]
    tables = {row["table"]: row for row in rows if row["table"]}  # the sentence of a table is the same in each of its rows
    return {
        "sentence": whole[-1]["sentence"] if whole else "",
        "rows": [{name: row[name] for name in ("table", "held_back_by", "kept_from_version", "sentence")} for row in tables.values()]
        or [{"table": "", "held_back_by": None, "kept_from_version": None, "sentence": row["sentence"]} for row in whole[-1:]],
    }


def _changes(before: str | None, after: str | None) -> list[dict[str, Any]]:
    """The measures that are not what they were: name, before, after."""
    old, new = _object(before), _object(after)
    return [{"name": name, "before": old.get(name), "after": new.get(name)} for name in {**old, **new} if old.get(name) != new.get(name)]


def _object(text: str | None) -> dict[str, Any]:
    found = _parsed(text)
    return found if isinstance(found, dict) else {}


def _listed(text: str | None) -> list[str]:
    found = _parsed(text)
    return [one if isinstance(one, str) else json.dumps(one, default=str) for one in found] if isinstance(found, list) else []


def _parsed(text: str | None) -> Any:
    try:
        return json.loads(text or "null")
    except ValueError:
        return None
