"""One batch of gold, whatever the cadence: its name, the silver version it is computed from, its gate, its note and its books."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from spark_jobs.io.lease import Leases
from spark_jobs.io.work import commit_notes, silver_app
from spark_jobs.jobs.publishing import judge, own_commit, write_books
from spark_jobs.jobs.run import Run
from spark_jobs.spec.books import Books
from spark_jobs.spec.errors import GateStopped
from spark_jobs.spec.gates import Verdict
from spark_jobs.spec.tables import BOOKS, TableId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LIVE = "live"


@dataclass(frozen=True)
class GoldBatch:
    """Gold computed from silver at `version` under the name `batch_id`, by the holder of the leases. `brought_by`: what asked for it."""

    run: Run
    leases: Leases
    batch_id: str
    version: int
    started_at: datetime
    brought_by: str = LIVE

    def pass_gate(self, table: TableId, rows: DataFrame | None, books: Books, facts: Mapping[str, Any]) -> dict[str, Any]:
        """The note for the commit of these rows. Raises GateStopped when their suite stops them and no person has released the batch.

        `rows` is None when silver's new versions hold nothing for the table, so there is nothing to judge.
        """
        if rows is None:
            verdict = Verdict(str(table), self.batch_id, "none", "pass", f"{table} {self.batch_id}: silver has nothing new for it.")
        else:
            verdict = judge(self.run, "gold", table, self.batch_id, rows, books, facts)
        decision = self.run.decision(table, self.batch_id)
        if verdict.outcome in ("stop", "hold") and (decision is None or decision["decision"] != "release"):
            raise GateStopped(verdict.sentence)
        return {
            "batch_id": self.batch_id, "silver_version": self.version, "run_id": self.run.run_id, "epoch": self.leases.epoch(table),
            "outcome": verdict.outcome, "decision": decision["decision"] if decision else None, "source_version": self.version,
            "books": books.terms(), "started_at": self.started_at.isoformat(),
        }  # fmt: skip

    def transaction(self, table: TableId, named: int | None) -> tuple[str, int]:
        """App id and version of the commit's transaction: the silver version that the table will name.

        A table that names this version already is written all the same when somebody asked for it: then the batch is the transaction
        itself. (With none at all Delta would leave out a commit that changes nothing, and with it the note.)
        """
        if named == self.version:
            return f"{table}/{self.batch_id}", 1
        return silver_app(self.run.settings, self.run.pipeline), self.version

    def finish(self, table: TableId, note: Mapping[str, Any], said: str) -> None:
        """After the commit: the books, from the commit's own note and metrics. Raises LeaseLost when another writer committed the batch."""
        committed = own_commit(self.run, table, note)
        self.leases.check()  # who took over meanwhile writes the books
        write_books(self.run, "gold", table, counted_by_commit(committed))
        self.run.say(f"{table} {self.batch_id}: {said}")


def counted_by_commit(note: Mapping[str, Any]) -> dict[str, Any]:
    """The note of a commit; where it says so, with what was written as the commit itself counted it, beside what was counted before."""
    if note.get("counted_by") != "commit":
        return dict(note)
    metrics = note["metrics"]
    merged = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
    names = merged if merged[0] in metrics else ("numOutputRows",)
    return {**note, "books": {**note["books"], "written": sum(int(metrics.get(name, 0)) for name in names)}}


def complete_books(run: Run, table: TableId) -> None:
    """A run that ended between a gold commit and its books left them out; they are in the note of the table's newest commit."""
    for note in commit_notes(run.settings, table):
        if "silver_version" in note:
            mine = {"table": str(table), "batch_id": str(note["batch_id"]), "target_version": note["version"]}
            if not run.ops.read(BOOKS, ["batch_id"], equal=mine).num_rows:
                write_books(run, "gold", table, counted_by_commit(note))
            return
