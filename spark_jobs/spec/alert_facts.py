"""What rules of alerts judge: small values that a reader takes from the tables, so that each rule is a function of them alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Literal


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened to a query, a driver or a task. `well`: it did its work. `begun`: it was started again."""

    subject: str
    kind: Literal["failed", "crash_loop", "begun", "well"]
    at: datetime
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Episode:
    """Failures of one subject in a row, none of which was followed by work done, and when that came."""

    subject: str
    began: datetime
    last: datetime
    failures: int
    sentence: str  # of the newest failure
    ended: datetime | None
    has_given_up: bool  # a crash loop was declared


@dataclass(frozen=True, slots=True)
class WaitingBatch:
    """A batch that a gate held or stopped, or a suite over a whole table that is not passed (`state` is its outcome)."""

    table: str
    batch_id: str
    state: str
    rows: int
    sentence: str
    at: datetime


@dataclass(frozen=True, slots=True)
class BatchPace:
    """One batch of a query, from `_ops.progress`. Rates in bytes per second: what came since the batch before it ended, and what it took
    while it was at work. Lag as it was at its end."""

    table: str
    at: datetime
    input_rate: float
    processed_rate: float
    lag_bytes: int
    lag_minutes: float


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When files of the source were entered, each look once, oldest first; history that a backfill brings is left out."""

    moments: tuple[datetime, ...]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Records taken in, as (batch end, records), oldest first; history that a backfill brings is left out."""

    batches: tuple[tuple[datetime, int], ...]


@dataclass(frozen=True, slots=True)
class LateEvents:
    """Of the last hour: events that changed settled windows, the windows, and all events that entered silver."""

    events: int
    windows: int
    all_events: int


@dataclass(frozen=True, slots=True)
class GrowingGroup:
    table: str
    rule: str
    fingerprint: str
    last_24h: int
    mean_per_day: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long the oldest thing that a table has not consumed has been waiting; `since` is None when there is nothing."""

    table: str
    since: datetime | None
    target: timedelta


@dataclass(frozen=True, slots=True)
class LateRun:
    """A run of a DAG that was not done at its deadline; `ended` when it was done after all."""

    dag_id: str
    run_id: str
    at: datetime
    sentence: str
    ended: datetime | None


@dataclass(frozen=True, slots=True)
class AuditResult:
    table: str
    audit_id: str
    at: datetime
    is_equal: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class Takeover:
    """A writer that did not give its leases back, and the one that took them. `done_at`: when the new one had written or given back."""

    tables: tuple[str, ...]
    before: str
    after: str
    which: str
    at: datetime
    done_at: datetime | None


@dataclass(frozen=True, slots=True)
class UnbalancedBatch:
    table: str
    batch_id: str
    equation: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Disk:
    """`was_low`: an incident about this place is open."""

    place: str
    free: int
    size: int
    was_low: bool = False


def episodes(marks: Iterable[Mark], now: datetime, steady: timedelta) -> Iterator[Episode]:
    """Failures in a row per subject. One is over when work was done after it, or when what was started again has stood for `steady`."""
    ordered = sorted(marks, key=lambda mark: (mark.subject, mark.at))
    for subject, own in groupby(ordered, key=lambda mark: mark.subject):
        yield from _of_subject(subject, list(own), now, steady)


def _of_subject(subject: str, marks: Sequence[Mark], now: datetime, steady: timedelta) -> Iterator[Episode]:
    row: list[Mark] = []
    begun: datetime | None = None
    for mark in marks:
        is_failure = mark.kind in ("failed", "crash_loop")
        if row and begun is not None and mark.at - begun >= steady:
            yield _episode(subject, row, begun + steady)
            row, begun = [], None
        if is_failure:
            row, begun = [*row, mark], None
        elif row and mark.kind == "well":
            yield _episode(subject, row, mark.at)
            row, begun = [], None
        elif row and begun is None:
            begun = mark.at
    if row:
        stands = begun is not None and now - begun >= steady
        yield _episode(subject, row, begun + steady if stands and begun else None)


def _episode(subject: str, row: Sequence[Mark], ended: datetime | None) -> Episode:
    given_up = any(mark.kind == "crash_loop" for mark in row)
    failures = sum(mark.kind == "failed" for mark in row) or 1
    told = next((mark.sentence for mark in reversed(row) if mark.sentence), "no reason was recorded")
    return Episode(subject, row[0].at, row[-1].at, failures, told, ended, given_up)
