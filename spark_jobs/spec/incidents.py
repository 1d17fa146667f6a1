"""Incidents: what a rule of alerts sees, and how what is seen now becomes what is told. Pure: no clock, no table.

A *sign* is one thing that is wrong as a rule sees it at one look. An *incident* is that thing from its beginning to its end: it fires once,
however many looks see it, and recovers once. What began and ended between two looks is an incident all the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

Severity = Literal["critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")  # worst first
State = Literal["firing", "recovered"]


@dataclass(frozen=True, slots=True)
class Sign:
    """`subject` is what it is about (a table, a batch, a DAG's task). `since` is when it began, as far as the rule can know.

    `occurrence` names this one of many of the same subject where the facts can tell them apart (a failure, a takeover): another one is
    another incident, even if no look lay in between. Without it the subject has one open incident at a time.
    `ended_at`: it is over already. `over` says how, for the notice of recovery.
    """

    rule: str
    subject: str
    severity: Severity
    sentence: str
    since: datetime
    occurrence: str = ""
    ended_at: datetime | None = None
    over: str = ""


@dataclass(frozen=True, slots=True)
class Incident:
    """The newest state of one incident. `at` is when it came into that state, `ended_at` when it was over, as far as the rule knew."""

    incident_id: str
    pipeline: str
    rule: str
    subject: str
    state: State
    severity: Severity
    sentence: str
    since: datetime
    at: datetime

    @property
    def is_open(self) -> bool:
        return self.state == "firing"


def incident_id(pipeline: str, rule: str, subject: str, which: str) -> str:
    """The same for everyone who looks at the same facts, so that two watchers at once speak of one incident."""
    return "inc_" + uuid.uuid5(uuid.NAMESPACE_URL, "|".join((pipeline, rule, subject, which))).hex[:12]


def changes(pipeline: str, known: Sequence[Incident], signs: Iterable[Sign], judged: Iterable[str], now: datetime) -> list[Incident]:
    """The states to write, in order: new incidents, and those that are over.

    `known` are the newest states of all incidents of the pipeline. `judged` are the rules that could be evaluated: an incident of another
    rule neither fires nor recovers by a look that saw nothing of it.
    """
    latest = {one.incident_id: one for one in known}
    allowed, seen, found = set(judged), set(), []
    for sign in signs:
        if sign.rule not in allowed:
            continue
        name = _which(pipeline, known, sign)
        seen.add(name)
        was = latest.get(name)
        if was is None:
            was = Incident(name, pipeline, sign.rule, sign.subject, "firing", sign.severity, sign.sentence, sign.since, now)
            latest[name] = was
            found.append(was)
        if sign.ended_at is not None and was.is_open:
            found.append(_over(was, sign.over, now))
            latest[name] = found[-1]
    gone = [one for one in known if one.is_open and one.rule in allowed and one.incident_id not in seen]
    return found + [_over(one, "", now) for one in gone]


def _which(pipeline: str, known: Sequence[Incident], sign: Sign) -> str:
    """The id of the incident that this sign is of: its own occurrence, else the open one of its subject, else the next one."""
    if sign.occurrence:
        return incident_id(pipeline, sign.rule, sign.subject, sign.occurrence)
    same = [one for one in known if (one.rule, one.subject) == (sign.rule, sign.subject)]
    return next((one.incident_id for one in same if one.is_open), incident_id(pipeline, sign.rule, sign.subject, str(len(same))))


def _over(incident: Incident, how: str, now: datetime) -> Incident:
    return replace(incident, state="recovered", sentence=how or f"Over. It was: {incident.sentence}", at=now)


def worst(severities: Iterable[Severity]) -> Severity:
    """The worst of some severities; `info` when there are none."""
    return min(severities, key=SEVERITIES.index, default="info")
