"""Committing a replay, so that it can be killed at any line: what it is about to do is told first, and what it left is tidied up.

The order: the intent (a small file beside silver's checkpoint); new rows of the side tables; silver in one commit that carries the replay's
transaction; its books; the old rows of the side tables taken out, computed from what the commit holds; the intent removed. Whoever finds
an intent either completes it (the commit is there) or takes the new rows of the side tables out again (it is not).
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from spark_jobs.io.delta_changes import change_once, rids_in_commit, rids_of_batch, take_out
from spark_jobs.io.delta_tables import append_once, clear_batch_rows, commit_of_batch, last_transaction, replace_batch_rows
from spark_jobs.io.lake import storage
from spark_jobs.jobs.publishing import Writer, own_commit, record_verdict, write_books
from spark_jobs.spec.books import Books
from spark_jobs.spec.errors import BooksUnbalanced, GateStopped
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

INTENT = "replay.json"
_WHERE_TO = re.compile(r" (Nothing was committed\.|Its rows wait in) .*$", re.S)  # what the gate says of a batch that has nowhere to wait


@dataclass(frozen=True)
class Transaction:
    """The name under which silver remembers that a replay was committed."""

    app: str
    number: int


@dataclass
class Replayed:
    """What became of the records that were read again. `still_bad` holds all that break the contract today."""

    recovered: int = 0  # were quarantined, entered silver
    changed: int = 0  # were in silver, have other values now
    unchanged: int = 0  # are in silver as they were
    still_bad: int = 0
    duplicate: int = 0  # their event is in silver by another delivery

    def sentence(self) -> str:
        parts = [f"{self.recovered:,} recovered", f"{self.still_bad:,} still bad", f"{self.duplicate:,} duplicate"]
        if self.changed or self.unchanged:
            parts[1:1] = [f"{self.changed:,} changed", f"{self.unchanged:,} unchanged"]
        return ", ".join(parts)


@dataclass(frozen=True)
class Change:
    """What a replay does to the tables. `quarantine` and `duplicates` are rows of those side tables, written by this replay.

    `silver` are rows that enter; or, where `dates` is not empty, rows for `change_once` (with `_change` and `_at`). `books`: per origin,
    the suffix of the batch id (see spec.replays) and its equation. `written`: the rows that the commit enters or sets.
    """

    batch_id: str
    transaction: Transaction
    silver: DataFrame
    quarantine: DataFrame
    duplicates: DataFrame
    books: Mapping[str, Books]
    result: Replayed
    written: int
    left: int = 0
    dates: Sequence[date] = field(default_factory=tuple)
    outcome: str = "pass"


def audit(writer: Writer, batch_id: str, rows: DataFrame, books: Books, facts: Mapping[str, Any]) -> str:
    """Judge the rows that a replay would have in silver by silver's suite: `pass` or `warn`. Raises GateStopped for `stop`, and for `hold`:
    what would be held has nowhere to wait but where it is."""
    run, table = writer.run, writer.table
    if not run.settings.gates or not books.read:
        return "pass"
    from expectations.gate import evaluate

    facts = {**facts, "books": books, "bronze_rows": books.read, "clock_ahead": run.pipeline.clock_ahead}
    suites = importlib.import_module(f"expectations.{run.pipeline.name}.silver")
    suite, policy = suites.suite(table.name.removeprefix(f"{run.pipeline.name}_"), facts), run.pipeline.policy("silver")
    verdict = evaluate(rows, suite=suite, policy=policy, table=str(table), batch_id=batch_id, books=books, facts=facts)
    if verdict.outcome in ("stop", "hold"):
        said = _WHERE_TO.sub(" Nothing was committed, its records stay where they are: mend the cause and replay again.", verdict.sentence)
        record_verdict(run, "silver", table, replace(verdict, outcome="stop", sentence=said))
        raise GateStopped(said)
    record_verdict(run, "silver", table, verdict)
    return verdict.outcome


def commit_replay(writer: Writer, change: Change, started_at: datetime) -> None:
    """Write a replay. Raises LeaseLost when another writer took over, BooksUnbalanced when the commit holds other counts."""
    run, table = writer.run, writer.table
    _tell_intent(writer, change)
    for side, rows in ((table.side("quarantine"), change.quarantine), (table.side("duplicates"), change.duplicates)):
        writer.leases.check()
        if not rows.isEmpty():
            replace_batch_rows(run.settings, side, rows, change.batch_id)
    note = {
        "batch_id": change.batch_id, "run_id": run.run_id, "epoch": writer.leases.epoch(table), "outcome": change.outcome, "decision": None,
        "source_version": None, "started_at": started_at.isoformat(), "replayed": asdict(change.result),
        "books": {}, "replay_books": {suffix: books.terms() for suffix, books in change.books.items()},
    }  # fmt: skip
    writer.leases.check()
    app, number = change.transaction.app, change.transaction.number
    if change.dates:
        date_column = run.pipeline.silver.date
        change_once(
            run.settings, table, change.silver, date_column=date_column, dates=change.dates, app=app, transaction=number, note=note,
        )  # fmt: skip
    else:
        rows = change.silver.coalesce(1) if run.small else change.silver
        append_once(run.settings, table, rows, app=app, transaction=number, note=note, partition_by=run.pipeline.silver.date)
    committed = own_commit(run, table, note)
    _check_counts(table, change, committed["metrics"])
    _complete(writer, change.batch_id, committed)
    run.say(f"{table} {change.batch_id}: read again: {change.result.sentence()}.")


def finish_open_replay(writer: Writer) -> None:
    """Complete, or take back, what a replay that was killed has left. Nothing is read when there is none (one look for a file)."""
    fs, path = storage(_intent(writer))
    if not fs.exists(path):
        return
    told = json.loads(fs.cat_file(path))
    batch_id, run = str(told["batch_id"]), writer.run
    done = last_transaction(run.settings, writer.table, told["app"])
    if done is not None and done >= int(told["number"]):
        committed = commit_of_batch(run.settings, writer.table, batch_id)
        if committed is not None:
            _complete(writer, batch_id, committed)
        else:
            fs.rm_file(path)
        run.say(f"{writer.table} {batch_id}: this replay was committed by a run that ended before it was done; it is done now.")
    else:
        for side in ("quarantine", "duplicates"):
            writer.leases.check()
            clear_batch_rows(run.spark, run.settings, writer.table.side(side), batch_id)
        run.say(f"{writer.table} {batch_id}: a replay ended before its commit; what it had prepared was taken back.")
        fs.rm_file(path)


def _complete(writer: Writer, batch_id: str, committed: Mapping[str, Any]) -> None:
    """Books and clean-up of a replay that is committed; from what the commit and the side tables hold, so that it can be done again."""
    run, table = writer.run, writer.table
    writer.leases.check()
    for suffix, terms in committed["replay_books"].items():
        write_books(run, writer.layer, table, {**committed, "books": terms}, f"{batch_id}{suffix}")
    entered = rids_in_commit(run.spark, run.settings, table, int(committed["version"]), batch_id)
    quarantine, duplicates = table.side("quarantine"), table.side("duplicates")
    moved = entered
    for side in (quarantine, duplicates):
        moved = moved.unionByName(rids_of_batch(run.spark, run.settings, side, batch_id))
    moved = moved.distinct().persist()
    try:
        for side in (quarantine, duplicates):
            writer.leases.check()
            take_out(run.spark, run.settings, side, moved, batch_id)
    finally:
        moved.unpersist()
    fs, path = storage(_intent(writer))
    if fs.exists(path):
        fs.rm_file(path)


def _tell_intent(writer: Writer, change: Change) -> None:
    fs, path = storage(_intent(writer))
    told = {"batch_id": change.batch_id, "app": change.transaction.app, "number": change.transaction.number}
    writer.leases.check()
    fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
    fs.pipe_file(f"{path}.new", json.dumps(told).encode())
    fs.mv(f"{path}.new", path)  # whole or not at all


def open_replay(settings: Settings, table: TableId) -> str | None:
    """The batch id of a replay of the table that was begun and not finished; None when there is none."""
    fs, path = storage(f"{settings.checkpoint(table)}/{INTENT}")
    return str(json.loads(fs.cat_file(path))["batch_id"]) if fs.exists(path) else None


def _intent(writer: Writer) -> str:
    return f"{writer.run.settings.checkpoint(writer.table)}/{INTENT}"


def _check_counts(table: TableId, change: Change, metrics: Mapping[str, Any]) -> None:
    names = ("numTargetRowsInserted", "numTargetRowsUpdated") if change.dates else ("numOutputRows",)
    written = sum(int(metrics.get(name, 0)) for name in names)
    left = int(metrics.get("numTargetRowsDeleted", 0)) if change.dates else 0
    if (written, left) != (change.written, change.left):
        raise BooksUnbalanced(
            f"{table}: replay {change.batch_id} was audited with {change.written} rows that enter or change and {change.left} that leave, "
            f"its commit holds {written} and {left}. Nothing further is built on it; see `assay books`."
        )
