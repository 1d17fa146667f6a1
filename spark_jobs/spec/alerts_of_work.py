"""Rules of alerts about work: what failed, what a gate or an audit refused, who lost a table, which run is late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from spark_jobs.spec.alert_facts import AuditResult, Episode, LateRun, Mark, Takeover, UnbalancedBatch, WaitingBatch, episodes
from spark_jobs.spec.incidents import Severity, Sign
from spark_jobs.spec.moments import clock, words

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


@dataclass(frozen=True, slots=True)
class QueryFailed:
    """Every failure of a streaming query or its driver, also one that a restart has healed. Failures in a row are one incident."""

    name: ClassVar[str] = "query_failed"
    reads: ClassVar[str] = "query_marks"
    # A query that has nothing to read shows by standing that it is well; a restart that fails does so within its first batch.
    steady: timedelta = 3 * MINUTE

    @property
    def threshold(self) -> str:
        return f"every failure; over when a batch is done, or when it has stood for {words(self.steady)} after its restart"

    def signs(self, facts: Sequence[Mark], now: datetime) -> list[Sign]:
        return [self._sign(one) for one in episodes(facts, now, self.steady)]

    def _sign(self, one: Episode) -> Sign:
        times = f" ({one.failures} times in a row)" if one.failures > 1 else ""
        over = f"{one.subject} works again since {clock(one.ended)}; it had failed{times}: {one.sentence}" if one.ended else ""
        return Sign(
            self.name, one.subject, "critical", f"{one.subject} failed{times}: {one.sentence}", one.began,
            one.began.isoformat(), one.ended, over,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class CrashLoop:
    """A query or driver that fails again and again without a batch in between: nobody but a person ends that."""

    name: ClassVar[str] = "crash_loop"
    reads: ClassVar[str] = "query_marks"
    failures: int = 5  # the fifth try of the same batch, with growing pauses, is after about ten minutes: not a hiccup of the store
    steady: timedelta = 3 * MINUTE

    @property
    def threshold(self) -> str:
        return f"{self.failures} failures in a row without a batch in between, or when the driver gives up"

    def signs(self, facts: Sequence[Mark], now: datetime) -> list[Sign]:
        looping = [one for one in episodes(facts, now, self.steady) if one.failures >= self.failures or one.has_given_up]
        return [
            Sign(
                self.name, one.subject, "critical",
                f"{one.subject} is in a crash loop: {one.failures} failures in a row since {clock(one.began)}"
                f"{', and it has given up' if one.has_given_up else ''}. The newest: {one.sentence}",
                one.began, one.began.isoformat(), one.ended, f"{one.subject} is out of its crash loop since {clock(one.ended)}.",
            )
            for one in looping
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """Every failure of a task or run in Airflow, also one that a retry has healed."""

    name: ClassVar[str] = "task_failed"
    reads: ClassVar[str] = "task_marks"

    @property
    def threshold(self) -> str:
        return "every failure; over when the task or a later run of its DAG succeeds"

    def signs(self, facts: Sequence[Mark], now: datetime) -> list[Sign]:
        return [
            Sign(
                self.name, one.subject, "critical",
                f"{one.subject} failed{f' ({one.failures} times in a row)' if one.failures > 1 else ''}: {one.sentence}",
                one.began, one.began.isoformat(), one.ended, f"{one.subject} succeeded at {clock(one.ended)}.",
            )
            for one in episodes(facts, now, DAY * 365)  # only success ends it: a task that runs again has shown nothing yet
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class GateFailed:
    """A batch that a gate stopped or held and nobody has decided about; a suite over a whole table that does not pass."""

    name: ClassVar[str] = "gate_failed"
    reads: ClassVar[str] = "waiting_batches"

    @property
    def threshold(self) -> str:
        return "every batch that is stopped or held; over when it is decided and carried out, or judged anew and passed"

    def signs(self, facts: Sequence[WaitingBatch], now: datetime) -> list[Sign]:
        return [self._sign(one) for one in facts]

    def _sign(self, one: WaitingBatch) -> Sign:
        what = f"{one.table} {one.batch_id}" if one.batch_id else one.table
        severity: Severity = "critical" if one.state in ("stopped", "stop") else "warning"
        return Sign(self.name, what, severity, f"{one.state}: {one.sentence}", one.at)


@dataclass(frozen=True, slots=True)
class AuditMismatch:
    """A cell of gold is not what silver's rows give."""

    name: ClassVar[str] = "audit_mismatch"
    reads: ClassVar[str] = "audits"

    @property
    def threshold(self) -> str:
        return "one cell; over when `assay audit --full` finds the table equal"

    def signs(self, facts: Sequence[AuditResult], now: datetime) -> list[Sign]:
        return [Sign(self.name, one.table, "critical", one.sentence, one.at) for one in facts if not one.is_equal]


@dataclass(frozen=True, slots=True)
class BooksUnbalanced:
    """A batch whose counts do not add up: a record is unaccounted for."""

    name: ClassVar[str] = "books_unbalanced"
    reads: ClassVar[str] = "unbalanced"

    @property
    def threshold(self) -> str:
        return "one record; over when the batch is written again and balances"

    def signs(self, facts: Sequence[UnbalancedBatch], now: datetime) -> list[Sign]:
        return [
            Sign(self.name, f"{one.table} {one.batch_id}", "critical", f"The books do not balance: {one.equation}.", one.at)
            for one in facts
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class LeaseTakenOver:
    """A writer that was killed or frozen did not give its tables back, and another one took them."""

    name: ClassVar[str] = "lease_taken_over"
    reads: ClassVar[str] = "takeovers"

    @property
    def threshold(self) -> str:
        return "every time; over when the new writer has written or given the tables back"

    def signs(self, facts: Sequence[Takeover], now: datetime) -> list[Sign]:
        return [self._sign(one) for one in facts]

    def _sign(self, one: Takeover) -> Sign:
        tables = ", ".join(one.tables[:3]) + (f" and {len(one.tables) - 3} more" if len(one.tables) > 3 else "")
        told = f"{one.after} has taken over {tables} from {one.before}, which ended or froze without giving them back."
        over = f"{one.after} is at work on what it took over from {one.before}; nothing was written twice."
        return Sign(self.name, one.before, "warning", told, one.at, one.which, one.done_at, over)


@dataclass(frozen=True, slots=True)
class DeadlineMissed:
    """A run of Airflow was not done at the time by which its tables had to be fresh."""

    name: ClassVar[str] = "deadline_missed"
    reads: ClassVar[str] = "late_runs"

    @property
    def threshold(self) -> str:
        return "the DAG's deadline, from the freshness targets of its tables; over when the run has ended"

    def signs(self, facts: Sequence[LateRun], now: datetime) -> list[Sign]:
        return [
            Sign(
                self.name, one.dag_id, "warning", one.sentence, one.at, one.run_id, one.ended,
                f"Run {one.run_id} of {one.dag_id} has ended at {clock(one.ended)}.",
            )
            for one in facts
        ]  # fmt: skip
