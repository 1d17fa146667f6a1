"""Where one record went: from its file through bronze and silver into the gold windows that count it, or to where it stays.

Every step is looked up on its own table; nothing is concluded from the step before. Times are UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

from spark_jobs.report.batches import waiting_batches
from spark_jobs.report.file_states import FileFilter, file_counts
from spark_jobs.report.quarantine_groups import dismissal_of
from spark_jobs.report.trace_first_seen import first_seen
from spark_jobs.report.views import LakeViews
from spark_jobs.report.way import Trace
from spark_jobs.spec.pipeline import GoldSpec, Pipeline
from spark_jobs.spec.tables import TableId
from spark_jobs.spec.windows import BUCKET_S

_RID = re.compile(r"([0-9a-f]{32}):(\d{1,10})")

# `of` predicates are Spark SQL; this one operator is spelled otherwise in DuckDB.
_RLIKE = re.compile(r"(\w+)\s+rlike\s+('(?:[^']|'')*')", re.IGNORECASE)


def is_rid(text: str) -> bool:
    """True for `<file id>:<record index>`."""
    return bool(_RID.fullmatch(text))


def rids_of_key(views: LakeViews, pipeline: Pipeline, key: str) -> list[str]:
    """The `_rid` of every delivery of an event: in silver, held back, or recorded as a duplicate. The kept one first."""
    silver, name = pipeline.silver_table, pipeline.silver.key
    found: list[str] = []
    for table in (silver, silver.side("held"), silver.side("duplicates")):
        if views.exists(table):
            rows = views.rows(
                f"SELECT _rid FROM {table} WHERE {name} = $key ORDER BY _ingested_at, _source_file, _record_index", {"key": key}
            )
            found += [row["_rid"] for row in rows]
    return list(dict.fromkeys(found))


def rids_of_quarantined_key(views: LakeViews, pipeline: Pipeline, key: str) -> list[str]:
    """The `_rid` of quarantined records whose raw text holds the key: they have no typed columns to look in."""
    quarantine = pipeline.silver_table.side("quarantine")
    if not views.exists(quarantine):
        return []
    return [row["_rid"] for row in views.rows(f"SELECT _rid FROM {quarantine} WHERE contains(raw, $key) LIMIT 20", {"key": key})]


def trace(views: LakeViews, pipeline: Pipeline, rid: str) -> Trace:
    """Follow one record by its `_rid`. A record that does not exist ends as `unknown`, with the reason."""
    way = Trace(rid)
    reading = _file(views, pipeline, way)
    if reading is None:
        return way
    if not _bronze(views, pipeline, way, reading):
        return way
    event = _silver(views, pipeline, way)
    if event is not None:
        not_yet = [spec.cadence for spec in pipeline.gold if not _gold(views, pipeline, way, spec, event)]
        if pipeline.first_seen is not None and not first_seen(views, pipeline, pipeline.first_seen, way, event):
            not_yet.append(pipeline.first_seen.cadence)
        place = f"It is published in {pipeline.silver_table} as {event[pipeline.silver.key]}"
        if not_yet:
            after = "the next run" if "hourly" in not_yet else "the daily run"
            return way.end("published", f"{place}; {len(not_yet)} gold table{'s' if len(not_yet) > 1 else ''} will count it after {after}.")
        return way.end("published", f"{place}, and every gold window that it belongs to counts it.")
    return way


def _file(views: LakeViews, pipeline: Pipeline, way: Trace) -> dict[str, Any] | None:
    file_id, index = way.rid.split(":")
    asked = {"id": file_id, "pipeline": pipeline.name}
    entries = views.rows("SELECT * FROM _ops.files WHERE file_id = $id AND pipeline = $pipeline ORDER BY attempt DESC", asked)
    if not entries:
        way.end("unknown", f"No file in the ledger of {pipeline.name} has the id {file_id}.")
        return None
    entry = entries[0]
    way.add(
        "landing", "_ops.files", "found", f"Record {index} of {entry['path']}, listed {entry['listed_at']:%Y-%m-%d %H:%M:%S}.",
        path=entry["path"], size=entry["size"], modified_at=entry["modified_at"], listed_at=entry["listed_at"], attempts=len(entries),
        run_id=entry["run_id"],
    )  # fmt: skip
    readings = views.rows("SELECT * FROM _ops.file_outcomes WHERE file_id = $id AND pipeline = $pipeline ORDER BY read_at DESC", asked)
    reading = next((row for row in readings if row["outcome"] == "ok"), readings[0] if readings else None)
    if reading is None:
        if entry["state"] == "ignored":
            way.end("ignored", f"The file is not read: {entry['reason']}.")
        else:
            way.end("waiting", "The file is listed but was not read yet; the next run reads it.")
        return None
    if reading["outcome"] != "ok":
        heals = " It may heal by itself and is read again." if reading["heals"] else " `assay files retry` reads it again."
        way.add("landing", "_ops.file_outcomes", "failed", reading["reason"] or "", rule=reading["rule"], read_at=reading["read_at"])
        way.end("failed", f"The file could not be read: {reading['reason']}{heals}")
        return None
    way.add(
        "landing", "_ops.file_outcomes", "found", f"Read {reading['read_at']:%Y-%m-%d %H:%M:%S}: {reading['records']:,} records.",
        sha256=reading["sha256"], records=reading["records"], batch_id=reading["batch_id"], run_id=reading["run_id"],
    )  # fmt: skip
    if int(index) >= (reading["records"] or 0):
        way.end("unknown", f"The file has {reading['records']:,} records, numbered from 0; there is no record {index}.")
        return None
    found: dict[str, Any] = reading
    return found


def _bronze(views: LakeViews, pipeline: Pipeline, way: Trace, reading: dict[str, Any]) -> bool:
    table = pipeline.bronze_table
    # A reading is of one batch, and a batch is of one day: two days' partitions are enough to look in.
    around: list[date] = [(reading["read_at"] + timedelta(days=days)).date() for days in (-1, 0, 1)]
    dates = ", ".join(f"DATE '{day}'" for day in around)
    rows = _rows(views, table, way.rid, f"AND _ingest_date IN ({dates})") or _rows(views, table, way.rid)
    if rows:
        way.add("bronze", table, "found", f"Kept as raw text in batch {rows[0]['_batch_id']}.", **_lineage(rows[0]), raw=rows[0]["raw"])
        return True
    if quarantined := _rows(views, table.side("quarantine"), way.rid):
        row = quarantined[0]
        way.add("bronze", table.side("quarantine"), "quarantined", row["reason"], rule=row["rule"], raw=row["raw_bytes"], **_lineage(row))
        way.end("quarantined", f"It is not text that a record can have: it stays in {table.side('quarantine')} ({row['rule']}).")
        return False
    return _held(views, table, way) or _stopped(views, pipeline, table, way, reading["batch_id"])


def _silver(views: LakeViews, pipeline: Pipeline, way: Trace) -> dict[str, Any] | None:
    table, key = pipeline.silver_table, pipeline.silver.key
    if rows := _rows(views, table, way.rid):
        row = rows[0]
        others = 0
        if views.exists(table.side("duplicates")):
            others = views.rows(f"SELECT count(*) AS n FROM {table.side('duplicates')} WHERE kept_rid = $rid", {"rid": way.rid})[0]["n"]
        again = (
            f" {others} later deliver{'ies' if others != 1 else 'y'} of it {'are' if others != 1 else 'is'} recorded as duplicate."
            if others
            else ""
        )
        way.add("silver", table, "found", f"Typed as {row[key]} at {row[pipeline.silver.time]:%Y-%m-%d %H:%M:%S}.{again}", **_lineage(row))
        return row
    if rows := _rows(views, table.side("duplicates"), way.rid):
        row = rows[0]
        differs = "differs in content from" if row["is_conflicting"] else "is the same as"
        sentence = f"A re-delivery of {row[key]}; it {differs} {row['kept_rid']}, which came first."
        way.add("silver", table.side("duplicates"), "duplicate", sentence,
                kept_rid=row["kept_rid"], is_conflicting=row["is_conflicting"], **_lineage(row))  # fmt: skip
        way.end("duplicate", f"The event is already there: {row['kept_rid']} is the one that was kept (`assay where {row['kept_rid']}`).")
        return None
    if rows := _rows(views, table.side("quarantine"), way.rid):
        row = rows[0]
        way.add("silver", table.side("quarantine"), "quarantined", row["reason"], rule=row["rule"], raw=row["raw"], **_lineage(row))
        way.end("quarantined", _why_quarantined(views, table, row))
        return None
    if not _held(views, table, way):
        _stopped(views, pipeline, table, way, None)
    return None


def _why_quarantined(views: LakeViews, table: TableId, row: dict[str, Any]) -> str:
    stays, due_at = f"it stays in {table.side('quarantine')}", row.get("due_at")
    dismissed = dismissal_of(views, table, row["rule"], row["reason"] or "", row["_ingested_at"])
    by = f" (dismissed by {dismissed['who']} at {dismissed['dismissed_at']:%Y-%m-%d %H:%M})" if dismissed else ""
    if due_at is None:
        return f"It breaks the contract of {table} ({row['rule']}): {stays}{by}."
    if dismissed:
        return f"It is ahead of its arrival ({row['rule']}) and was rejected by a person: {stays}{by}."
    return f"It is ahead of its arrival ({row['rule']}): parked until {due_at:%Y-%m-%d %H:%M:%S} UTC, then it is read again by itself."


def _gold(views: LakeViews, pipeline: Pipeline, way: Trace, spec: GoldSpec, event: dict[str, Any]) -> bool:
    """One step per gold table; True when all windows are there, or when the table does not count such events."""
    table, time = pipeline.gold_table(spec), event[pipeline.silver.time]
    counts = _RLIKE.sub(r"regexp_matches(\1, \2)", spec.of)
    asked = {"rid": way.rid, "day": event[pipeline.silver.date]}
    own = f"FROM {pipeline.silver_table} WHERE _rid = $rid AND {pipeline.silver.date} = $day"
    if not views.rows(f"SELECT coalesce({counts}, false) AS counts {own}", asked)[0]["counts"]:
        way.add("gold", table, "not counted", f"This table counts only events with: {spec.of}")
        return True
    second = int(time.timestamp())
    starts = [datetime.fromtimestamp(start, UTC) for start in spec.window.starts_for(second - second % BUCKET_S)]
    rows = []
    if views.exists(table):
        same = " AND ".join(f"gold.{name} IS NOT DISTINCT FROM mine.{name}" for name in spec.grain)
        days = ", ".join(f"DATE '{day}'" for day in sorted({start.date() for start in starts}))
        between = f"gold.window_start BETWEEN TIMESTAMPTZ '{starts[0]}' AND TIMESTAMPTZ '{starts[-1]}'"
        rows = views.rows(
            f"SELECT gold.* FROM {table} AS gold, (SELECT * {own}) AS mine WHERE gold.window_date IN ({days}) AND {between} AND {same} "
            "ORDER BY gold.window_start",
            asked,
        )
    for row in rows:
        group = ", ".join(f"{row[name]}" for name in spec.grain)
        sentence = (
            f"{row['window_start']:%Y-%m-%d %H:%M} to {row['window_end']:%H:%M}, {group}: one of {row[spec.counts]:,} ({spec.counts})."
        )
        way.add("gold", table, "counted", sentence, window_start=row["window_start"], count=row[spec.counts])
    if len(rows) < len(starts):
        way.add("gold", table, "waiting", f"{len(starts) - len(rows)} of its {len(starts)} windows are not computed yet.")
    return len(rows) == len(starts)


def _rows(views: LakeViews, table: TableId, rid: str, narrower: str = "") -> list[dict[str, Any]]:
    return views.rows(f"SELECT * FROM {table} WHERE _rid = $rid {narrower}", {"rid": rid}) if views.exists(table) else []


def _held(views: LakeViews, table: TableId, way: Trace) -> bool:
    """Ends the way at a held batch. Always False: the way does not go on."""
    if rows := _rows(views, table.side("held"), way.rid):
        batch = rows[0]["_batch_id"]
        way.add(table.layer, table.side("held"), "held", f"Its batch {batch} was held by the gate.", **_lineage(rows[0]))
        way.end("held", f"It waits in batch {batch}: `assay held show {table} {batch}` says why, release or reject decides.")
    return False


def _stopped(views: LakeViews, pipeline: Pipeline, table: TableId, way: Trace, batch_id: str | None) -> bool:
    """Ends the way where the layer has not taken the record in, saying what it waits for. Always False."""
    if way.ends != "unknown":
        return False
    stopped = [row for row in waiting_batches(views, pipeline=pipeline.name) if row["table"] == str(table) and row["state"] == "stopped"]
    mine = [row for row in stopped if batch_id is None or row["batch_id"] == batch_id]
    if mine:
        why = f"Batch {mine[0]['batch_id']} of {table} was stopped by its gate, and nothing after it is written: {mine[0]['sentence']}"
        way.add(table.layer, table, "waiting", why)
        way.end("waiting", f"It waits for a decision: `assay held show {table} {mine[0]['batch_id']}`.")
    elif _is_waiting(views, pipeline, table):
        way.add(table.layer, table, "waiting", f"{table} has not consumed all of its source yet.")
        way.end("waiting", f"It waits for {table}; the next run takes it.")
    else:
        way.add(table.layer, table, "missing", f"{table} has consumed all of its source, and the record is in none of its tables.")
        way.end("missing", f"A record is unaccounted for at {table}: `assay books --count` shows where the numbers part.")
    return False


def _is_waiting(views: LakeViews, pipeline: Pipeline, table: TableId) -> bool:
    if table.layer == "bronze":
        return any(row["state"] in ("pending", "stopped") for row in file_counts(views, FileFilter(pipeline.name)))
    asked = {"source": str(pipeline.bronze_table), "table": str(table)}
    behind = views.rows(
        'SELECT count(*) AS n FROM _ops.books WHERE "table" = $source AND written > 0 AND target_version > '
        '(SELECT coalesce(max(source_version), -1) FROM _ops.books WHERE "table" = $table)',
        asked,
    )
    return bool(behind[0]["n"])


def _lineage(row: dict[str, Any]) -> dict[str, Any]:
    names = ("_source_file", "_record_index", "_file_sha256", "_ingested_at", "_batch_id")
    return {name.lstrip("_"): row[name] for name in names if name in row}
