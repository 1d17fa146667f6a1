"""Which rules of alerts a pipeline has. Each is a pure function from facts to signs, with its threshold and its reason beside it.

A pipeline takes DEFAULT_ALERTS unless it declares its own: `alerts=override(TrafficSpike(times=10))` changes one rule, and
`alerts=without("source_silent")` leaves one out.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from spark_jobs.spec.alerts_of_flow import (
    DiskNearlyFull,
    FallingBehind,
    FreshnessMissed,
    LateFlood,
    QuarantineGrowing,
    SourceSilent,
    TrafficSpike,
)
from spark_jobs.spec.alerts_of_work import (
    AuditMismatch,
    BooksUnbalanced,
    CrashLoop,
    DeadlineMissed,
    GateFailed,
    LeaseTakenOver,
    QueryFailed,
    TaskFailed,
)
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.incidents import Sign


class AlertRule(Protocol):
    """`name` is the rule's own, `reads` names the facts it judges (see jobs/watch_facts.py), `threshold` tells a person when it fires."""

    @property
    def name(self) -> str: ...

    @property
    def reads(self) -> str: ...

    @property
    def threshold(self) -> str: ...

    def signs(self, facts: Any, now: datetime) -> list[Sign]: ...


DEFAULT_ALERTS: tuple[AlertRule, ...] = (
    QueryFailed(), CrashLoop(), TaskFailed(), GateFailed(), AuditMismatch(), BooksUnbalanced(), LeaseTakenOver(), DeadlineMissed(),
    FreshnessMissed(), FallingBehind(), SourceSilent(), TrafficSpike(), LateFlood(), QuarantineGrowing(), DiskNearlyFull(),
)  # fmt: skip


def override(*rules: AlertRule, of: tuple[AlertRule, ...] = DEFAULT_ALERTS) -> tuple[AlertRule, ...]:
    """The rules `of`, those of the same name replaced; a rule of a new name is added."""
    mine = {rule.name: rule for rule in rules}
    return (*(mine.pop(rule.name, rule) for rule in of), *mine.values())


def without(*names: str, of: tuple[AlertRule, ...] = DEFAULT_ALERTS) -> tuple[AlertRule, ...]:
    """The rules `of` but these. Raises ConfigurationFault for a name that is none of theirs."""
    if unknown := set(names) - {rule.name for rule in of}:
        known = ", ".join(rule.name for rule in of)
        raise ConfigurationFault(f"There is no alert rule {', '.join(sorted(unknown))}. Known: {known}.")
    return tuple(rule for rule in of if rule.name not in names)
