"""Write, audit, publish: the one way in which a micro-batch of bronze or silver enters its table.

The order makes a batch that was killed at any line end in the same tables when it is run again: side tables first (their rows of the batch
are replaced), the main table in one commit that carries the batch's transaction, then the books. A batch whose transaction is already
there only has its books completed, from the note in that commit.
"""

from __future__ import annotations

import importlib
import json
import uuid
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from spark_jobs.io.checkpoint import Checkpoint
from spark_jobs.io.delta_tables import append_once, clear_batch_rows, commit_of_batch, last_transaction, replace_batch_rows
from spark_jobs.io.generation import Generation
from spark_jobs.io.lease import Leases
from spark_jobs.jobs.run import Run
from spark_jobs.spec.books import TERMS, Books
from spark_jobs.spec.errors import BooksUnbalanced, GateStopped, LeaseLost
from spark_jobs.spec.gates import Verdict
from spark_jobs.spec.tables import BOOKS, SIDES, VERDICTS, Layer, TableId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Writer:
    """The right to write a table: its run, its lease, and the checkpoint whose transactions the table carries."""

    run: Run
    layer: Layer
    table: TableId
    leases: Leases
    checkpoint: Checkpoint
    generation: Generation

    @property
    def app(self) -> str:
        return f"{self.table}/{self.generation.name}/{self.generation.nonce}"


@dataclass(frozen=True)
class Batch:
    """One micro-batch, split and counted but not yet written.

    `rows` are those that may enter the table; `sides` the rows of its side tables. `books` hold what was counted: `written` is the count of
    `rows` before the commit, and is compared with what the commit says.
    """

    number: int
    batch_id: str
    rows: DataFrame
    books: Books
    started_at: datetime
    sides: Mapping[TableId, DataFrame] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    partition_by: str = ""
    statistics: tuple[str, ...] = ()
    source_version: int = 0
    is_empty: bool = False  # its part of the source has nothing for this table, so there is nothing to judge


def complete_if_committed(writer: Writer, number: int) -> bool:
    """True when the table already holds this batch; its books are completed from the note in its commit."""
    transaction = last_transaction(writer.run.settings, writer.table, writer.app)
    if transaction is None or transaction < number:
        return False
    note = commit_of_batch(writer.run.settings, writer.table, writer.checkpoint.batch_id(number))
    if note is not None:
        write_books(writer.run, writer.layer, writer.table, note)
    return True


def publish(writer: Writer, batch: Batch, to_quarantine: Any = None) -> str:
    """Audit the batch and publish it, hold it, or raise GateStopped with nothing committed. Returns the gate's outcome.

    `to_quarantine(rows, reason)` turns rows of this table into rows of its quarantine, for a batch that a person rejected.
    """
    run, table = writer.run, writer.table
    decision = run.decision(table, batch.batch_id)
    if batch.is_empty:
        verdict = Verdict(str(table), batch.batch_id, "none", "pass", f"{table} {batch.batch_id}: its source holds nothing for this table.")
    else:
        verdict = judge(run, writer.layer, table, batch.batch_id, batch.rows, batch.books, batch.facts)
    if verdict.outcome == "stop" and decision is None:
        raise GateStopped(verdict.sentence)
    books, rows, sides = batch.books, batch.rows, dict(batch.sides)
    nothing = rows.limit(0)
    if decision is not None and decision["decision"] == "reject":
        reason = f"rejected by {decision['who']}: {decision['note'] or 'no note'}"
        quarantine = table.side("quarantine")
        rejected = to_quarantine(rows, reason)
        sides[quarantine] = sides[quarantine].unionByName(rejected) if quarantine in sides else rejected
        books, rows = replace(books, quarantined=books.quarantined + books.written, written=0), nothing
    elif verdict.outcome == "hold" and decision is None:
        from pyspark.sql import functions as F

        verdict_id = verdict_key(run, table, batch.batch_id)
        sides[table.side("held")] = rows.withColumn("verdict_id", F.lit(verdict_id))
        books, rows = replace(books, held=books.written, written=0), nothing
    for side in map(table.side, SIDES):
        writer.leases.check()
        if side in sides:
            replace_batch_rows(run.settings, side, sides[side], batch.batch_id)
        else:  # a try that was killed may have read or judged otherwise: a file that has vanished since, a suite that was mended
            clear_batch_rows(run.spark, run.settings, side, batch.batch_id)
    note = {
        "batch_id": batch.batch_id, "run_id": run.run_id, "epoch": writer.leases.epoch(table), "outcome": verdict.outcome,
        "decision": decision["decision"] if decision else None, "source_version": batch.source_version, "books": books.terms(),
        "started_at": batch.started_at.isoformat(),
    }  # fmt: skip
    writer.leases.check()
    append_once(
        run.settings, table, rows, app=writer.app, transaction=batch.number, note=note,
        partition_by=batch.partition_by or None, statistics=batch.statistics,
    )  # fmt: skip
    committed = own_commit(run, table, note)
    in_commit = int(committed["metrics"].get("numOutputRows", -1))
    if in_commit != books.written:
        raise BooksUnbalanced(
            f"{table}: batch {batch.batch_id} was audited with {books.written} rows, its commit holds {in_commit}. "
            f"Nothing further is built on it; see `assay books`."
        )
    writer.leases.check()  # who took over meanwhile writes the books, and the checkpoint is no longer ours
    write_books(run, writer.layer, table, committed)
    run.say(f"{table} {batch.batch_id}: {books.equation()}" + (f"; gate: {verdict.outcome}" if run.settings.gates else ""))
    return verdict.outcome


def own_commit(run: Run, table: TableId, note: Mapping[str, Any]) -> dict[str, Any]:
    """The commit that carries this note, with its version and metrics. Raises LeaseLost when the batch was committed by another writer.

    Delta leaves out a write whose transaction the table already has: a driver that was frozen at its commit finds the one that took over.
    """
    committed = commit_of_batch(run.settings, table, str(note["batch_id"]))
    if committed is None or committed["epoch"] != note["epoch"]:
        other = "another writer" if committed is None else f"run {committed['run_id']} (epoch {committed['epoch']})"
        raise LeaseLost(
            f"{table}: batch {note['batch_id']} was committed by {other} while this run (epoch {note['epoch']}) was away. "
            f"This run stops; nothing was written twice."
        )
    return committed


def judge(run: Run, layer: Layer, table: TableId, batch_id: str, rows: DataFrame, books: Books, facts: Mapping[str, Any]) -> Verdict:
    """The verdict of the table's suite on the rows, recorded in `_ops.verdicts` under this run."""
    if not run.settings.gates:
        return Verdict(str(table), batch_id, "none", "pass", "The gates are switched off.")
    from expectations.gate import evaluate

    facts = {**facts, "books": books}
    suites = importlib.import_module(f"expectations.{run.pipeline.name}.{layer}")
    suite = suites.suite(table.name.removeprefix(f"{run.pipeline.name}_"), facts)
    with run.pace.gating() if run.pace else nullcontext():
        policy = run.pipeline.policy(layer)
        verdict = evaluate(rows, suite=suite, policy=policy, table=str(table), batch_id=batch_id, books=books, facts=facts)
        record_verdict(run, layer, table, verdict)
    return verdict


def verdict_key(run: Run, table: TableId, batch_id: str) -> str:
    """The same for every evaluation of one batch in one run."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"{run.run_id}|{table}|{batch_id}").hex


def record_verdict(run: Run, layer: Layer | Literal["tables"], table: TableId, verdict: Verdict) -> None:
    now = run.clock()
    common = {
        "verdict_id": verdict_key(run, table, verdict.batch_id), "pipeline": run.pipeline.name, "layer": layer, "table": str(table),
        "batch_id": verdict.batch_id, "run_id": run.run_id, "suite": verdict.suite, "outcome": verdict.outcome,
        "sentence": verdict.sentence, "evaluated_at": now,
    }  # fmt: skip
    rows = [
        common
        | {
            "expectation": check.expectation, "column": check.column, "severity": check.severity, "success": check.success,
            "expected": check.sentence, "observed": check.observed, "element_count": check.element_count,
            "unexpected_count": check.unexpected_count, "sample": json.dumps(check.sample), "exception": check.exception,
        }
        for check in verdict.checks
    ]  # fmt: skip
    run.ops.append(VERDICTS, rows or [common | {"expectation": "none evaluated", "success": False, "severity": "critical"}])


def write_books(run: Run, layer: Layer, table: TableId, note: Mapping[str, Any], batch_id: str = "") -> None:
    """One row of `_ops.books` from the note of a commit. Raises BooksUnbalanced, after writing it, when the terms do not add up."""
    books = Books(**{term: int(note["books"].get(term, 0)) for term in TERMS})
    batch_id = batch_id or str(note["batch_id"])
    row = {
        "pipeline": run.pipeline.name, "layer": layer, "table": str(table), "batch_id": batch_id, "run_id": note["run_id"], **books.terms(),
        "is_balanced": books.is_balanced, "equation": books.equation(), "outcome": note["outcome"], "decision": note.get("decision"),
        "source_version": note.get("source_version"), "target_version": note["version"], "epoch": note.get("epoch"),
        "started_at": datetime.fromisoformat(note["started_at"]), "finished_at": run.clock(),
    }  # fmt: skip
    run.ops.replace_batch(BOOKS, of=table, batch_id=batch_id, rows=[row])
    run.progress.booked(row)
    if not books.is_balanced:
        raise BooksUnbalanced(f"{table}: the books of batch {batch_id} do not balance: {books.equation()}. See `assay books`.")
