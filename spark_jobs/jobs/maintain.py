"""Maintenance: joins the small files of closed days, removes what no version in use names, and keeps logs short.

It runs beside the hourly job, takes no lease, and removes nothing that a consumer of a table still needs (`io/consumers.py`), however old
it is. Each step can be killed and done again. What was done, and who held it back, is in `_ops.maintenance`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from deltalake.exceptions import CommitFailedError

from spark_jobs.io.consumers import needs_of
from spark_jobs.io.delta_tables import spark_location
from spark_jobs.io.lake import lake_table
from spark_jobs.io.lease import Lease
from spark_jobs.io.leftovers import remove_old_epochs, remove_old_generations
from spark_jobs.io.maintenance_files import Swept, crowded_partitions, remove_unneeded, unneeded_files
from spark_jobs.io.maintenance_log import OWN_CLEANUP, cleans_up_by_itself, remove_old_commits
from spark_jobs.io.progress_store import ProgressStore
from spark_jobs.jobs.compaction import compact_days, compact_ops
from spark_jobs.jobs.run import Run, leave, run_job, utc_now
from spark_jobs.report.write import remove_old_reports
from spark_jobs.spec.pipeline import Pipeline, load_pipeline, pipeline_names
from spark_jobs.spec.tables import FILES, MAINTENANCE, OPS_TABLES, PROGRESS, SIDES, TableId

QUIET = timedelta(hours=1)  # a day to which a file came within it may be in the hands of a backfill
SMALL_WORK_BYTES = 64_000_000  # up to here a session that compiles no code is quicker


@dataclass
class Kept:
    """What maintenance did to one table."""

    table: TableId
    days: int = 0
    files_before: int | None = None
    files_after: int | None = None
    files: Swept = field(default_factory=Swept)
    commits: Swept = field(default_factory=Swept)
    note: str = ""

    @property
    def held_back_by(self) -> list[str]:
        return list(dict.fromkeys([*self.files.held_back_by, *self.commits.held_back_by]))

    @property
    def kept_from_version(self) -> int | None:
        return min((one.kept_from_version for one in (self.files, self.commits) if one.kept_from_version is not None), default=None)

    @property
    def sentence(self) -> str:
        said = []
        if self.files_before != self.files_after:
            of = f" of {self.days} closed day{'s' if self.days != 1 else ''}" if self.days else ""
            said.append(f"{self.files_before:,} small files{of} joined to {self.files_after:,}")
        if self.files.removed:
            said.append(f"{self.files.removed:,} files that nobody needs removed ({self.files.bytes / 1e6:,.1f} MB)")
        if self.commits.removed:
            said.append(f"{self.commits.removed:,} old commits removed")
        if self.held_back_by:
            left = " and ".join(
                f"{one.kept:,} {what}" for one, what in ((self.files, "old files"), (self.commits, "old commits")) if one.kept
            )
            said.append(f"{left} stay for {', '.join(self.held_back_by)}, from version {self.kept_from_version} on")
        if self.note:
            said.append(self.note)
        return f"{self.table}: {'; '.join(said) or 'nothing to do'}."


def maintain(run: Run) -> dict[str, Any]:
    """Care for every table of the pipeline and of `_ops`, and for what lies beside them. Returns `sentence` and `tables`."""
    now = run.clock()
    done = []
    for one in chain(_lake_tables(run, now), _ops_tables(run, now)):
        run.ops.append(MAINTENANCE, _rows(run, one))
        run.say(one.sentence)
        done.append(one)
    others = _leftovers(run, now)
    held_back = list(dict.fromkeys(who for one in done for who in one.held_back_by))
    sentence = _sentence(done, others, held_back)
    run.ops.append(MAINTENANCE, [_row(run, "", "all", sentence=sentence, held_back_by=held_back)])
    run.say(sentence)
    tables = [
        {
            "table": str(one.table), "days_compacted": one.days, "files_before": one.files_before, "files_after": one.files_after,
            "files_removed": one.files.removed, "bytes_removed": one.files.bytes, "commits_removed": one.commits.removed,
            "held_back_by": one.held_back_by, "kept_from_version": one.kept_from_version, "sentence": one.sentence,
        }
        for one in done
    ]  # fmt: skip
    return {"sentence": sentence, "tables": tables}


def _lake_tables(run: Run, now: datetime) -> Iterator[Kept]:
    pipeline = run.pipeline
    days = {pipeline.bronze_table: "_ingest_date", pipeline.silver_table: pipeline.silver.date}  # gold's days are one file each, always
    closed_before = (now - pipeline.lateness).date()
    crowded = {
        table: crowded_partitions(run.settings, table, column, closed_before=closed_before, quiet_since=now - QUIET)
        for table, column in days.items()
    }
    run.small = sum(one.bytes for found in crowded.values() for one in found) <= SMALL_WORK_BYTES
    for main in pipeline.all_tables:
        for table in (main, *map(main.side, SIDES)):
            if lake_table(run.settings, table) is None:
                continue
            one = Kept(table)
            _keep_own_log(run, table, main, one)
            if found := crowded.get(table, []):
                one.files_before = _count(run, table)
                one.days = compact_days(run, table, days[table], [part.day for part in found])
                one.files_after = _count(run, table)
            _sweep(run, one, now)
            yield one


def _ops_tables(run: Run, now: datetime) -> Iterator[Kept]:
    for table in OPS_TABLES:
        if lake_table(run.settings, table) is None:
            continue
        one = Kept(table)
        _keep_own_log(run, table, table, one)
        if table == PROGRESS:
            one.note = ProgressStore(run.settings).remove_old(now) or one.note
        one.files_before, one.files_after = compact_ops(run, table)
        _sweep(run, one, now)
        yield one


def _sweep(run: Run, one: Kept, now: datetime) -> None:
    """Remove the table's unneeded files and old commits. Who needs what is asked last, so that one who has just come is seen."""
    settings, pipelines = run.settings, _pipelines()
    # Times of files are of the machine's clock, whatever the run's says.
    older_than = max(timedelta(0), utc_now() - (now - timedelta(hours=settings.vacuum_hours)))
    candidates = unneeded_files(settings, one.table, older_than=older_than)
    needs = needs_of(settings, pipelines, one.table)
    if candidates:
        one.files = remove_unneeded(settings, one.table, candidates, needs)
    # The ledger, bronze and silver are streamed from their first commit on: started again without it, Delta refuses a stream.
    if one.table.layer == "_ops" and one.table != FILES:
        one.commits = remove_old_commits(settings, one.table, needs, before=now - timedelta(days=settings.log_days))


def _keep_own_log(run: Run, table: TableId, main: TableId, one: Kept) -> None:
    """Tell a table made by older code to leave its log to maintenance.

    A change of its properties makes Delta refuse whatever is being written at that moment, so it waits for a moment without a writer.
    """
    if not cleans_up_by_itself(run.settings, table):
        return
    if Lease(run.settings, main, run.run_id).holder() is not None:
        one.note = "it still removes commits by itself after 30 days: it was being written, the next maintenance changes that"
    elif table.layer == "_ops":
        try:
            lake_table(run.settings, table).alter.set_table_properties(OWN_CLEANUP)  # type: ignore[union-attr]
        except CommitFailedError:
            one.note = "it still removes commits by itself after 30 days: the next maintenance changes that"
    else:
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in OWN_CLEANUP.items())
        run.spark.sql(f"ALTER TABLE delta.`{spark_location(run.settings, table)}` SET TBLPROPERTIES ({properties})")


def _leftovers(run: Run, now: datetime) -> list[str]:
    """What was removed beside the tables, in words."""
    said = []
    if epochs := remove_old_epochs(run.settings):
        said.append(f"{epochs:,} old epochs of leases")
    if generations := remove_old_generations(run.settings, before=now - timedelta(days=run.settings.log_days)):
        said.append(f"the checkpoint{'s' if len(generations) != 1 else ''} {', '.join(generations)}")
    if reports := remove_old_reports(run.settings, before=now - timedelta(days=run.settings.report_days)):
        said.append(f"{reports:,} old report{'s' if reports != 1 else ''}")
    return said


def _sentence(done: Sequence[Kept], others: Sequence[str], held_back: Sequence[str]) -> str:
    joined = [one for one in done if one.files_before != one.files_after]
    before, after = (
        (sum(count or 0 for count in counts) for counts in zip(*((one.files_before, one.files_after) for one in joined), strict=True))
        if joined
        else (0, 0)
    )
    removed, size = sum(one.files.removed for one in done), sum(one.files.bytes for one in done)
    said = []
    if joined:
        said.append(f"{before:,} small files joined to {after:,}")
    if removed:
        said.append(f"{removed:,} files removed ({size / 1e6:,.1f} MB)")
    if commits := sum(one.commits.removed for one in done):
        said.append(f"{commits:,} old commits removed")
    if others:
        said.append(f"removed beside the tables: {', '.join(others)}")
    if held_back:
        said.append(f"held back by {', '.join(held_back)}")
    return f"{len(done)} tables cared for: {'; '.join(said) or 'nothing to do'}."


def _rows(run: Run, one: Kept) -> list[dict[str, Any]]:
    """One row per thing that was done to the table or kept from being done."""
    rows = []
    if one.files_before != one.files_after:
        rows.append(_row(run, str(one.table), "compact", sentence=one.sentence, files_before=one.files_before, files_after=one.files_after))
    for action, swept in (("vacuum", one.files), ("log", one.commits)):
        if swept.removed or swept.held_back_by:
            figures = {"removed": swept.removed, "bytes": swept.bytes, "kept_from_version": swept.kept_from_version}
            rows.append(_row(run, str(one.table), action, sentence=one.sentence, held_back_by=swept.held_back_by, **figures))
    return rows


def _row(run: Run, table: str, action: str, *, sentence: str, held_back_by: Sequence[str] = (), **figures: int | None) -> dict[str, Any]:
    return {
        "pipeline": run.pipeline.name, "table": table, "action": action, "held_back_by": ", ".join(held_back_by) or None,
        "sentence": sentence, "run_id": run.run_id, "done_at": run.clock(), **figures,
    }  # fmt: skip


def _count(run: Run, table: TableId) -> int:
    found = lake_table(run.settings, table)
    return 0 if found is None else len(found.file_uris())


def _pipelines() -> list[Pipeline]:
    """All of them: the ledger is read by every pipeline."""
    return [load_pipeline(name) for name in pipeline_names()]


def _work(run: Run, options: object) -> dict[str, Any]:
    """Join small files of closed days, remove what no consumer needs any more, and say who held it back."""
    try:
        return maintain(run)
    finally:
        if run.has_session:
            run.spark.stop()


if __name__ == "__main__":
    leave(run_job("maintain", _work))
