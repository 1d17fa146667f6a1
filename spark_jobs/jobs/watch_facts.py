"""What the rules of alerts judge, read from the tables without a JVM. One method for each name that a rule `reads`.

Each table is asked for what is recent, so that a look costs the same whatever the history; what several rules need is read once.
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.io.delta_log import added_files
from spark_jobs.io.lake import storage
from spark_jobs.io.ops import Ops
from spark_jobs.io.work import bronze_checkpoint
from spark_jobs.jobs.recent_books import COLUMNS, recent_books
from spark_jobs.jobs.watch_failures import late_runs, query_marks, task_marks
from spark_jobs.jobs.watch_leases import takeovers
from spark_jobs.spec.alert_facts import (
    Arrivals,
    AuditResult,
    BatchPace,
    Disk,
    GrowingGroup,
    LateEvents,
    LateRun,
    Mark,
    Takeover,
    Traffic,
    UnbalancedBatch,
    Waiting,
    WaitingBatch,
)
from spark_jobs.spec.incidents import Incident
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import AMENDMENTS, AUDITS, BACKFILL_CHUNKS, BOOKS, FILES, PROGRESS, VERDICTS, TableId

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WEEK = 8 * DAY  # a week to compare with, and today
PACES_OF, PACES = 6 * HOUR, 50  # five batches of hourly runs, and far more than a rule asks for


class FactsReader:
    """The facts of one pipeline at one instant. `open_incidents` are those that fire: what they are about is looked for further back."""

    def __init__(self, settings: Settings, pipeline: Pipeline, now: datetime, open_incidents: Iterable[Incident] = ()) -> None:
        self.settings, self.pipeline, self.now = settings, pipeline, now
        self.open = list(open_incidents)
        self.ops = Ops(settings)

    def query_marks(self) -> list[Mark]:
        return query_marks(self.settings, self.pipeline, since=self._since("query_failed", "crash_loop"), books=lambda: self.books)

    def task_marks(self) -> list[Mark]:
        return task_marks(self.settings, self.pipeline, since=self._since("task_failed"))

    def late_runs(self) -> list[LateRun]:
        return late_runs(self.settings, self.pipeline, since=self._since("deadline_missed"))

    def takeovers(self) -> list[Takeover]:
        return takeovers(self.settings, self.pipeline, since=self._since("lease_taken_over"), books=lambda: self.books)

    def waiting_batches(self) -> list[WaitingBatch]:
        """Undecided batches, and the newest verdict of each suite over a whole table where that is not passed."""
        mine = {"pipeline": self.pipeline.name}
        whole = self.ops.read(
            VERDICTS, ["table", "batch_id", "outcome", "sentence", "evaluated_at"], equal={**mine, "layer": "tables"}
        ).to_pylist()
        newest = {row["table"]: row for row in sorted(whole, key=lambda row: row["evaluated_at"])}
        found = [
            WaitingBatch(row["table"], "", row["outcome"], 0, row["sentence"], row["evaluated_at"])
            for row in newest.values()
            if row["outcome"] in ("stop", "hold")
        ]
        if any(self.ops.read(VERDICTS, ["outcome"], equal={**mine, "outcome": outcome}).num_rows for outcome in ("stop", "hold")):
            from spark_jobs.report.batches import waiting_batches
            from spark_jobs.report.views import LakeViews

            rows = waiting_batches(LakeViews(self.settings), pipeline=self.pipeline.name)
            found += [
                WaitingBatch(row["table"], row["batch_id"], row["state"], row["rows"] or 0, row["sentence"], row["evaluated_at"])
                for row in rows
            ]
        return found

    def paces(self) -> dict[str, list[BatchPace]]:
        """The newest batches of each query. What came is what waits more than before, and what the batch took."""
        columns = ["table", "at", "batch_bytes", "duration_ms", "lag_bytes", "lag_minutes"]
        rows = self.ops.read(PROGRESS, columns, equal={"pipeline": self.pipeline.name}, since={"at": self.now - PACES_OF})
        found: dict[str, list[BatchPace]] = {}
        for table in pc.unique(rows["table"]).to_pylist():
            own = rows.filter(pc.field("table") == table).sort_by([("at", "descending")]).slice(0, PACES).to_pylist()
            known = [row for row in reversed(own) if row["lag_bytes"] is not None and row["batch_bytes"] is not None]
            found[table] = [_pace(before, row) for before, row in pairwise(known) if row["at"] > before["at"]]
        return found

    def arrivals(self) -> Arrivals:
        wanted = (pc.field("pipeline") == self.pipeline.name) & (pc.field("state") == "listed")
        rows = self.ops.read(FILES, ["listed_at", "admitted"], wanted, since={"listed_at": self.now - WEEK})
        if not rows.num_rows:  # silent for longer than a week: the newest arrival of all
            rows = self.ops.read(FILES, ["listed_at", "admitted"], wanted)
            rows = rows.sort_by([("listed_at", "descending")]).slice(0, 1)
        live = rows.filter(pc.field("admitted").isin(["live", "retry"]) | pc.field("admitted").is_null())
        return Arrivals(tuple(sorted(pc.unique(_minutes(live["listed_at"])).to_pylist())))

    def traffic(self) -> Traffic:
        """By the minute."""
        bronze = self.books.filter(
            (pc.field("layer") == "bronze") & ~pc.field("run_id").isin(pa.array(sorted(self._backfill_runs), pa.string()))
        )
        minutes = {"at": _minutes(bronze["finished_at"])} | {term: bronze[term] for term in ("written", "quarantined", "held")}
        sums = pa.table(minutes).group_by("at").aggregate([(term, "sum") for term in ("written", "quarantined", "held")]).to_pylist()
        return Traffic(tuple(sorted((row["at"], sum(row[name] or 0 for name in row if name != "at")) for row in sums)))

    def late_events(self) -> LateEvents:
        columns = ["table", "window_start", "key", "events", "brought_by"]
        mine = {"pipeline": self.pipeline.name}
        rows = self.ops.read(AMENDMENTS, columns, equal=mine, since={"amended_at": self.now - HOUR}).to_pylist()
        live = [row for row in rows if row["brought_by"] == "live"]
        events: dict[str, int] = defaultdict(int)
        for row in live:  # an event is in windows of several tables, and counts once
            events[row["table"]] += row["events"] or 0
        lately = self.books.filter((pc.field("layer") == "silver") & (pc.field("finished_at") > self.now - HOUR))
        return LateEvents(max(events.values(), default=0), len(live), pc.sum(lately["written"]).as_py() or 0)

    def growing(self) -> list[GrowingGroup]:
        from spark_jobs.report.quarantine_groups import growing_groups
        from spark_jobs.report.views import LakeViews

        groups = growing_groups(LakeViews(self.settings), self.now, self.pipeline.name)
        names = ("table", "rule", "fingerprint", "last_24h", "mean_per_day")
        return [GrowingGroup(**{name: group[name] for name in names}) for group in groups]

    def waiting(self) -> list[Waiting]:
        """For each table since when the oldest thing that it has not consumed has been there."""
        found = []
        for table in self.pipeline.all_tables:
            since = self._oldest_unread_file() if table.layer == "bronze" else self._oldest_unread_batch(table)
            found.append(Waiting(str(table), since, self.pipeline.freshness_of(table)))
        return found

    def audits(self) -> list[AuditResult]:
        """The newest audit of each table that says something of a mismatch: a sample that is equal does not show that it is mended."""
        columns = ["table", "audit_id", "audited_at", "is_equal", "mode", "sentence"]
        rows = self.ops.read(AUDITS, columns, equal={"pipeline": self.pipeline.name}).to_pylist()
        newest: dict[str, AuditResult] = {}
        for row in sorted(rows, key=lambda row: row["audited_at"]):
            if row["mode"] == "full" or not row["is_equal"]:
                newest[row["table"]] = AuditResult(row["table"], row["audit_id"], row["audited_at"], row["is_equal"], row["sentence"])
        return list(newest.values())

    def unbalanced(self) -> list[UnbalancedBatch]:
        begun = [one.since - HOUR for one in self.open if one.rule == "books_unbalanced"]
        books = self.books
        if begun and min(begun) < self.now - WEEK:
            books = self.ops.read(BOOKS, COLUMNS, equal={"pipeline": self.pipeline.name}, since={"finished_at": min(begun)})
        wrong = books.filter(~pc.field("is_balanced")).to_pylist()
        return [UnbalancedBatch(row["table"], row["batch_id"], row["equation"], row["finished_at"]) for row in wrong]

    def disks(self) -> list[Disk]:
        """Of every disk that holds something of ours: the lake and the landing folder where they are folders, and the home."""
        low = {one.subject for one in self.open if one.rule == "disk_nearly_full"}
        places = {
            str(self.settings.home.absolute()),
            *(root for root in (self.settings.lake_root, self.settings.landing_root) if "://" not in root),
        }
        found: dict[int, Disk] = {}
        for place in sorted(places):
            there = next(path for path in (Path(place), *Path(place).parents) if path.exists())
            usage = shutil.disk_usage(there)
            found.setdefault(os.stat(there).st_dev, Disk(place, usage.free, usage.total, place in low))
        return list(found.values())

    @cached_property
    def books(self) -> pa.Table:
        """The books of the last days."""
        return recent_books(self.settings, self.pipeline, self.now, WEEK)

    @cached_property
    def _consumed(self) -> dict[str, int]:
        """Per table the newest version of its source that it has read."""
        newest = self.books.select(["table", "source_version"]).group_by("table").aggregate([("source_version", "max")])
        return dict(zip(newest["table"].to_pylist(), newest["source_version_max"].to_pylist(), strict=True))

    @cached_property
    def _batches_with_rows(self) -> dict[TableId, pa.Table]:
        """Of the tables that others read: the batches that brought rows."""
        columns = self.books.select(["table", "written", "target_version", "finished_at"])
        sources = (self.pipeline.bronze_table, self.pipeline.silver_table)
        return {one: columns.filter((pc.field("table") == str(one)) & (pc.field("written") > 0)) for one in sources}

    @cached_property
    def _backfill_runs(self) -> set[str]:
        rows = self.ops.read(BACKFILL_CHUNKS, ["run_id"], equal={"pipeline": self.pipeline.name}, since={"at": self.now - WEEK - DAY})
        return set(rows["run_id"].to_pylist()) - {None}

    def _since(self, *rules: str) -> datetime:
        """Two days ago, or when the oldest open incident of these rules began, if that was before."""
        return min([self.now - 2 * DAY, *(one.since - HOUR for one in self.open if one.rule in rules)])

    def _oldest_unread_file(self) -> datetime | None:
        """When the oldest file was listed that bronze has not read; history that a backfill brings may wait."""
        fs, root = storage(self.settings.location(FILES))
        wanted = (
            (pc.field("pipeline") == self.pipeline.name) & (pc.field("state") == "listed") & pc.field("admitted").isin(["live", "retry"])
        )
        oldest = []
        for added in added_files(self.settings, FILES, bronze_checkpoint(self.settings, self.pipeline).position()):
            with fs.open(f"{root}/{added.path}", "rb") as file:
                rows = pq.read_table(file, columns=["pipeline", "state", "admitted", "listed_at"]).filter(wanted)
            oldest += [pc.min(rows["listed_at"]).as_py()] if rows.num_rows else []
        return min(oldest, default=None)

    def _oldest_unread_batch(self, table: TableId) -> datetime | None:
        """When the oldest batch of the source was written that the table has not consumed."""
        source = self.pipeline.bronze_table if table.layer == "silver" else self.pipeline.silver_table
        consumed = self._consumed.get(str(table))
        unread = pc.field("target_version") > (-1 if consumed is None else consumed)
        found: datetime | None = pc.min(self._batches_with_rows[source].filter(unread)["finished_at"]).as_py()
        return found


def _pace(before: dict[str, Any], row: dict[str, Any]) -> BatchPace:
    came = max(0, row["lag_bytes"] - before["lag_bytes"] + row["batch_bytes"]) / (row["at"] - before["at"]).total_seconds()
    taken = row["batch_bytes"] * 1000 / row["duration_ms"] if row["duration_ms"] else 0.0
    return BatchPace(row["table"], row["at"], came, taken, row["lag_bytes"], row["lag_minutes"] or 0.0)


def _minutes(times: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.floor_temporal(times, unit="minute")
