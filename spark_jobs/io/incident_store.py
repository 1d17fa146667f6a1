"""`_ops.incidents`: every state of every incident, what was told of it and where, and what a person has silenced. Append-only.

States of a row: `firing` and `recovered`, each once per incident; `told firing` and `told recovered`, one per channel (`channels` names
it); `silenced`, with `until`, `who` and `note`, for a subject of a rule or, without a subject, for the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, get_args

import pyarrow.compute as pc

from spark_jobs.io.ops import Ops
from spark_jobs.spec.incidents import Incident, State
from spark_jobs.spec.notices import Channel
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import INCIDENTS

KEPT_FOR = timedelta(days=7)  # a notice that no server took for a week is of the past; `assay alerts --all` still has it
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Due:
    """One state of an incident that one channel has not been told yet."""

    incident: Incident
    channel: Channel


@dataclass(frozen=True, slots=True)
class Silence:
    rule: str
    subject: str  # empty: the whole rule
    until: datetime
    who: str
    note: str

    def covers(self, one: Incident, now: datetime) -> bool:
        return now < self.until and self.rule == one.rule and self.subject in ("", one.subject)


class IncidentStore:
    """The incidents of one pipeline, as they were when this was made; `refresh` reads them again."""

    def __init__(self, settings: Settings, pipeline: str) -> None:
        self._ops, self._pipeline = Ops(settings), pipeline
        self.refresh()

    def refresh(self) -> None:
        rows = self._ops.read(INCIDENTS, equal={"pipeline": self._pipeline}).to_pylist()
        self._rows: list[Row] = sorted(rows, key=lambda row: row["at"])

    def known(self) -> list[Incident]:
        """The newest state of each incident, in the order in which they began to fire."""
        latest: dict[str, Incident] = {}
        for row in self._states():
            was = latest.get(row["incident_id"])
            if was is None or was.is_open:  # of two states written at one instant the end is the newer
                latest[row["incident_id"]] = _incident(row)
        return list(latest.values())

    def silences(self, now: datetime) -> list[Silence]:
        rows = [row for row in self._rows if row["state"] == "silenced" and row["until"] > now]
        return [Silence(row["rule"], row["subject"] or "", row["until"], row["who"] or "", row["note"] or "") for row in rows]

    def enter(self, states: Sequence[Incident], channels: Iterable[Channel], run_id: str) -> None:
        """Write new states, each to be told on these channels, unless another watcher has written one of them: then only the others."""
        mine, told_on = list(states), ",".join(sorted(channels))
        while mine:
            rows = [asdict(one) | {"channels": told_on, "run_id": run_id} for one in mine]
            keys = [f"{one.incident_id} {one.state}" for one in mine]
            is_there = pc.binary_join_element_wise(pc.field("incident_id"), pc.field("state"), " ").isin(keys)
            there = {(row["incident_id"], row["state"]) for row in self._ops.append_unless(INCIDENTS, rows, is_there)}
            if not there:
                break
            mine = [one for one in mine if (one.incident_id, one.state) not in there]
        self.refresh()

    def due(self, channels: Iterable[Channel], now: datetime) -> list[Due]:
        """What is to be told where. Of an incident that is silenced only its recovery is told; while it is, its firing waits."""
        silences = self.silences(now)
        told = {(row["incident_id"], row["state"].removeprefix("told "), row["channels"]) for row in self._rows if _is_told(row)}
        found = []
        for row in self._states():
            one = _incident(row)
            for channel in channels:
                is_told = (one.incident_id, one.state, channel) in told or (one.incident_id, "recovered", channel) in told
                wanted = channel in (row["channels"] or "").split(",") and not is_told
                is_silenced = one.is_open and any(silence.covers(one, now) for silence in silences)
                if wanted and not is_silenced and now - one.at < KEPT_FOR:
                    found.append(Due(one, channel))
        return found

    def mark_told(self, due: Sequence[Due], now: datetime) -> None:
        self._ops.append(
            INCIDENTS,
            [
                asdict(one.incident) | {"state": f"told {one.incident.state}", "channels": one.channel, "at": now, "sentence": None}
                for one in due
            ],
        )
        self.refresh()

    def untold(self, incident: Incident) -> list[str]:
        """The channels that were configured when the incident came into its state, and have not been told of it."""
        rows = [row for row in self._rows if row["incident_id"] == incident.incident_id]
        told = {row["channels"] for row in rows if row["state"] == f"told {incident.state}"}
        wanted = next((row["channels"] or "" for row in rows if row["state"] == incident.state), "")
        return [channel for channel in wanted.split(",") if channel and channel not in told]

    def silence(self, rule: str, subject: str, *, until: datetime, who: str, note: str, now: datetime) -> None:
        row: Mapping[str, Any] = {
            "incident_id": "", "pipeline": self._pipeline, "rule": rule, "subject": subject, "state": "silenced", "until": until,
            "who": who, "note": note, "at": now,
        }  # fmt: skip
        self._ops.append(INCIDENTS, [row])
        self.refresh()

    def _states(self) -> list[Row]:
        return [row for row in self._rows if row["state"] in get_args(State)]


def _is_told(row: Row) -> bool:
    return bool(row["state"].startswith("told "))


def _incident(row: Row) -> Incident:
    names = ("incident_id", "pipeline", "rule", "subject", "state", "severity", "sentence", "since", "at")
    return Incident(**{name: row[name] for name in names})
