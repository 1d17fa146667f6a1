"""Quarantine as a work queue: its rows in groups of one cause, each with its trend and what a person decided about it.

The groups are computed when they are asked for; nothing but a person's dismissals is stored. Times are UTC, those of the rows are when
bronze took the record in.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from spark_jobs.report.masking import mask_record
from spark_jobs.report.views import LakeViews
from spark_jobs.spec.errors import UnknownName
from spark_jobs.spec.fingerprints import fingerprint, shape_sql
from spark_jobs.spec.pipeline import Pipeline, load_pipeline, pipeline_names
from spark_jobs.spec.tables import TableId

Group = dict[str, Any]

DAY = timedelta(days=1)
DAYS_BEFORE = 7  # a week has its weekend
GROWING_ROWS = 5  # fewer in a day are one odd file, whatever the mean was
GROWING_TIMES = 2  # a day's count moves by half from one day to the next without a cause
OPEN_STATES = ("open", "open again", "parked")

_DISMISSED_SQL = """
SELECT "table", fingerprint, max(up_to) AS up_to, arg_max(rows, dismissed_at) AS rows, arg_max(who, dismissed_at) AS who,
       arg_max(note, dismissed_at) AS note, max(dismissed_at) AS dismissed_at
  FROM _ops.dismissals GROUP BY ALL
"""


def quarantine_groups(
    views: LakeViews, now: datetime, *, pipeline: str = "", table: str = "", also_closed: bool = False, since: datetime | None = None
) -> list[Group]:
    """The groups of every quarantine, growing ones first, then the largest.

    Keys: fingerprint, pipeline, table (the one the rows were kept out of), rule, shape, reason (one of them), count, new_count (since its
    dismissal), first_seen, last_seen, last_24h, mean_per_day (in the week before), is_growing, state, due_at, who, note, dismissed_at.
    state: open, open again (dismissed, but new rows came), parked (until due_at, then read again by itself), dismissed, rejected (by a
    person). The last two are closed. `since`: only records taken in after that.
    Raises UnknownName for a pipeline or table that has no quarantine.
    """
    decided = {(row["table"], row["fingerprint"]): row for row in views.rows(_DISMISSED_SQL)}
    found = []
    for declared, kept_out_of in _tables(pipeline, table):
        for row in _rows_in_groups(views, kept_out_of, now, since):
            found.append(_group(views, declared, kept_out_of, row, decided))
    found.sort(key=lambda group: (not group["is_growing"], -group["count"], group["fingerprint"]))
    return [group for group in found if also_closed or group["state"] in OPEN_STATES]


def growing_groups(views: LakeViews, now: datetime, pipeline: str = "") -> list[Group]:
    """The open groups with more records in the last 24 hours than the week before explains; see `growing_sentence`.

    Asked after every run, so it looks at recent records alone, and counts those.
    """
    return [group for group in recent_groups(views, now, pipeline) if group["is_growing"]]


def recent_groups(views: LakeViews, now: datetime, pipeline: str = "") -> list[Group]:
    """The open groups as the records of the last 24 hours and of the week before make them."""
    return quarantine_groups(views, now, pipeline=pipeline, since=now - (DAYS_BEFORE + 1) * DAY)


def growing_sentence(groups: Sequence[Group]) -> str:
    """What to tell a person about growing groups; empty when there are none."""
    if not groups:
        return ""
    first = groups[0]
    what = f"{first['rule']} in {first['table']} ({first['last_24h']:,} in 24 h, {first['mean_per_day']:,.1f} a day before)"
    more = f" and {len(groups) - 1} more" if len(groups) > 1 else ""
    return f"QUARANTINE IS GROWING: {what}{more}; `assay quarantine show {first['fingerprint']}`."


def find_group(views: LakeViews, now: datetime, name: str) -> Group:
    """The group with this fingerprint, or with the one that begins so. Raises UnknownName when there is none, or more than one."""
    everything = quarantine_groups(views, now, also_closed=True)
    found = [group for group in everything if name and group["fingerprint"].startswith(name.lower())]
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownName(f"{len(found)} groups begin with '{name}': {', '.join(group['fingerprint'] for group in found[:5])}.")
    known = ", ".join(f"{group['fingerprint']} ({group['rule']})" for group in everything[:5])
    hint = f"Known: {known}. `assay quarantine list` shows all." if known else "The quarantine is empty."
    raise UnknownName(f"No quarantined record has the fingerprint '{name}'. {hint}")


def sample_of(views: LakeViews, group: Group, limit: int) -> list[dict[str, Any]]:
    """The newest records of a group with their values masked: rid, file, record_index, reason, masked, ingested_at, due_at."""
    table = TableId.parse(group["table"])
    side = table.side("quarantine")
    raw, due = ("raw_bytes" if table.layer == "bronze" else "raw"), _due(views, side)
    rows = views.rows(
        f"SELECT _rid, _source_file, _record_index, reason, {raw} AS raw, _ingested_at, {due} AS due_at FROM {side} "
        f"WHERE {_of_group()} ORDER BY _ingested_at DESC, _source_file, _record_index LIMIT {int(limit)}",
        _asked(group),
    )
    return [
        {
            "rid": row["_rid"], "file": row["_source_file"], "record_index": row["_record_index"], "reason": row["reason"],
            "masked": mask_record(row["raw"]), "ingested_at": row["_ingested_at"], "due_at": row["due_at"],
        }
        for row in rows
    ]  # fmt: skip


def files_of(views: LakeViews, group: Group, limit: int) -> list[dict[str, Any]]:
    """The files that a group's records came from, most records first: file, count, last_seen."""
    side = TableId.parse(group["table"]).side("quarantine")
    sql = f"SELECT _source_file AS file, count(*) AS count, max(_ingested_at) AS last_seen FROM {side} WHERE {_of_group()} GROUP BY ALL"
    return views.rows(f"{sql} ORDER BY count DESC, file LIMIT {int(limit)}", _asked(group))


def rids_of(views: LakeViews, group: Group, *, also_dismissed: bool = True) -> list[str]:
    """The `_rid`s of a group's records; without those that were there when a person dismissed it, if asked so."""
    side, since, asked = TableId.parse(group["table"]).side("quarantine"), "", _asked(group)
    if group["up_to"] is not None and not also_dismissed:
        since, asked = " AND _ingested_at > $up_to", asked | {"up_to": group["up_to"]}
    return [row["_rid"] for row in views.rows(f"SELECT _rid FROM {side} WHERE {_of_group()}{since} ORDER BY _rid", asked)]


def dismissal_of(views: LakeViews, table: TableId, rule: str, reason: str, taken_in: datetime) -> dict[str, Any] | None:
    """The dismissal that covers a quarantined row; None when no person has dismissed it."""
    sql = f"SELECT {shape_sql('$reason')} AS shape"
    name = fingerprint(table, rule, views.rows(sql, {"reason": reason})[0]["shape"])
    for row in views.rows(_DISMISSED_SQL):
        if (row["table"], row["fingerprint"]) == (str(table), name) and taken_in <= row["up_to"]:
            return row
    return None


def _tables(pipeline: str, table: str) -> list[tuple[Pipeline, TableId]]:
    declared = [load_pipeline(name) for name in ([pipeline] if pipeline else pipeline_names())]
    tables = [(one, each) for one in declared for each in (one.bronze_table, one.silver_table)]
    if table and table not in (names := [str(each) for _, each in tables]):
        raise UnknownName(f"{table} has no quarantine. Those that have one: {', '.join(names)}.")
    return [(one, each) for one, each in tables if table in ("", str(each))]


def _rows_in_groups(views: LakeViews, table: TableId, now: datetime, since: datetime | None) -> list[dict[str, Any]]:
    side = table.side("quarantine")
    if not views.exists(side):
        return []
    asked = {"day_ago": now - DAY, "week_ago": now - (DAYS_BEFORE + 1) * DAY} | ({"since": since} if since else {})
    return views.rows(
        f"SELECT coalesce(rule, '') AS rule, {shape_sql('reason')} AS shape, min(reason) AS reason, count(*) AS count, "
        "min(_ingested_at) AS first_seen, max(_ingested_at) AS last_seen, count(*) FILTER (_ingested_at > $day_ago) AS last_24h, "
        f"count(*) FILTER (_ingested_at > $week_ago AND _ingested_at <= $day_ago) / {DAYS_BEFORE} AS mean_per_day, "
        f"min({_due(views, side)}) AS due_at FROM {side} {'WHERE _ingested_at > $since' if since else ''} GROUP BY 1, 2",
        asked,
    )


def _group(
    views: LakeViews, pipeline: Pipeline, table: TableId, row: dict[str, Any], decided: dict[tuple[str, str], dict[str, Any]]
) -> Group:
    name = fingerprint(table, row["rule"], row["shape"])
    dismissed = decided.get((str(table), name), {})
    group = {
        "fingerprint": name, "pipeline": pipeline.name, "table": str(table), **row, "new_count": row["count"],
        "who": dismissed.get("who"), "note": dismissed.get("note"),
        "dismissed_at": dismissed.get("dismissed_at"), "up_to": dismissed.get("up_to"),
        "is_parked": row["due_at"] is not None,
    }  # fmt: skip
    if dismissed:
        newer = views.rows(
            f"SELECT count(*) AS n, min({_due(views, table.side('quarantine'))}) AS due_at FROM {table.side('quarantine')} "
            f"WHERE {_of_group()} AND _ingested_at > $up_to",
            _asked(group) | {"up_to": dismissed["up_to"]},
        )[0]
        # Rows can also come with an old time: a batch that was held and is rejected later.
        group["new_count"], group["due_at"] = max(newer["n"], row["count"] - dismissed["rows"]), newer["due_at"]
    group["state"] = _state(group, is_parked=row["due_at"] is not None)
    much = row["last_24h"] >= GROWING_ROWS and row["last_24h"] > GROWING_TIMES * group["mean_per_day"]
    group["is_growing"] = much and group["state"] in OPEN_STATES
    return group


def _state(group: Group, *, is_parked: bool) -> str:
    if group["rule"] == "rejected":
        return "rejected"
    if group["dismissed_at"] and group["new_count"] <= 0:
        return "rejected" if is_parked else "dismissed"
    if is_parked and group["due_at"] is not None:
        return "parked"
    return "open again" if group["dismissed_at"] else "open"


def _due(views: LakeViews, side: TableId) -> str:
    """The column, or a null where the table was written before there was one (bronze has none)."""
    return "due_at" if "due_at" in views.columns(side) else "NULL::TIMESTAMPTZ"


def _of_group() -> str:
    return f"coalesce(rule, '') = $rule AND {shape_sql('reason')} = $shape"


def _asked(group: Group) -> dict[str, Any]:
    return {"rule": group["rule"], "shape": group["shape"]}
