"""Watch: judge the pipeline's alert rules, write what has changed to `_ops.incidents`, and tell it. Starts no JVM.

One look is: read facts, judge, write states, send what is due, mark it as told. Looks are made one after another (a lease), whoever makes
them. A state is written once. A notice is delivered at least once: a look that is killed after a server took it and before that was
written sends it again, once, with the same incident ids and the same message id.
"""

from __future__ import annotations

import sys
import traceback
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from spark_jobs.io.channels import Undelivered, channels
from spark_jobs.io.incident_store import Due, IncidentStore
from spark_jobs.io.lease import Lease
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.jobs.watch_facts import FactsReader
from spark_jobs.jobs.watch_unwritten import tell_unwritten, tell_written_again
from spark_jobs.report.notice import compose, masked, one_line
from spark_jobs.spec.alerts import AlertRule
from spark_jobs.spec.errors import LeaseHeld, LeaseLost
from spark_jobs.spec.incidents import Incident, Sign, changes
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId

BLIND = "rule_blind"  # a rule that could not be judged, so that silence is never mistaken for health
WAIT_S = 30  # for another look to end: it takes a second, and half a minute with a mail server that does not answer


@dataclass(frozen=True, slots=True)
class Look:
    """What one look did: states that it wrote, what it sent where, what it could not send, what fires now."""

    changed: list[Incident] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    undelivered: list[str] = field(default_factory=list)
    firing: list[Incident] = field(default_factory=list)
    skipped: str = ""

    @property
    def sentence(self) -> str:
        if self.skipped:
            return self.skipped
        fired, over = (sum(one.state == state for one in self.changed) for state in ("firing", "recovered"))
        told = f" Told: {'; '.join(self.sent)}." if self.sent else ""
        kept = f" NOT TOLD: {' '.join(self.undelivered)}" if self.undelivered else ""
        return f"{fired} new, {over} over, {len(self.firing)} firing.{told}{kept}"


def watch(settings: Settings, pipeline: Pipeline, now: datetime, *, run_id: str = "") -> list[Incident]:
    """One look at the pipeline; returns the states that it wrote. For a driver that calls it in a thread."""
    return look(settings, pipeline, now, run_id=run_id).changed


def look(settings: Settings, pipeline: Pipeline, now: datetime, *, run_id: str = "") -> Look:
    """One look. When another one is being made for longer than WAIT_S, this one leaves it to that.

    A lake that cannot be read or written is told all the same, once an hour, and raised.
    """
    patient = settings.model_copy(update={"lease_wait_s": WAIT_S})
    try:
        lease = Lease(patient, TableId("_ops", f"watch_{pipeline.name}"), f"watch {run_id}".strip())
        lease.take()
        try:
            done = _look(settings, pipeline, now, run_id, lease)
        finally:
            lease.release()
    except LeaseLost:
        raise
    except LeaseHeld:
        return Look(skipped="Another look is being made; what there is to tell, it or the next one tells.")
    except Exception as fault:  # whatever keeps the watch from its tables, silence would be taken for health
        tell_unwritten(settings, pipeline, now, fault)
        raise
    tell_written_again(settings, pipeline, now)
    return done


def _look(settings: Settings, pipeline: Pipeline, now: datetime, run_id: str, lease: Lease) -> Look:
    store = IncidentStore(settings, pipeline.name)
    signs, judged = judge(FactsReader(settings, pipeline, now, [one for one in store.known() if one.is_open]), pipeline.alerts, now)
    found = changes(pipeline.name, store.known(), signs, judged, now)
    ways = channels(settings)
    lease.check()  # one that was frozen while it read knows nothing of what was told since
    if found:
        store.enter(found, ways, run_id)
    sent, undelivered = [], []
    for channel, send in ways.items():
        due = [one for one in store.due(ways, now) if one.channel == channel]
        if due:
            notice = compose(pipeline.name, _newest(due), form=settings.alert_webhook_form, lake=settings.lake_root)
            lease.check()
            try:
                sent.append(f"{len(_newest(due))} to {send(notice)}")
            except Undelivered as fault:
                undelivered.append(str(fault))
            else:
                store.mark_told(due, now)
    return Look(found, sent, undelivered, [one for one in store.known() if one.is_open])


def judge(reader: FactsReader, rules: Sequence[AlertRule], now: datetime) -> tuple[list[Sign], set[str]]:
    """All signs, and the names of the rules that could be judged. One that cannot is a sign of its own, and hinders no other."""
    signs: list[Sign] = []
    judged = {BLIND}
    facts: dict[str, Any] = {}
    for rule in rules:
        try:
            if rule.reads not in facts:
                facts[rule.reads] = getattr(reader, rule.reads)()
            signs += rule.signs(facts[rule.reads], now)
            judged.add(rule.name)
        except Exception as fault:  # a table that is damaged is one more reason to tell what the other rules see
            traceback.print_exc(file=sys.stderr)
            why = one_line(masked(f"{type(fault).__name__}: {fault}"))
            signs.append(Sign(BLIND, rule.name, "warning", f"The rule {rule.name} could not be judged: {why}", now))
    return signs, judged


def _newest(due: Sequence[Due]) -> list[Incident]:
    """Each incident once, in its newest state."""
    states: dict[str, list[Incident]] = defaultdict(list)
    for one in due:
        states[one.incident.incident_id].append(one.incident)
    return [next((one for one in found if not one.is_open), found[0]) for found in states.values()]


def _work(run: Run, options: object) -> dict[str, Any]:
    """Make one look and say what it found."""
    done = look(run.settings, run.pipeline, run.clock(), run_id=run.run_id)
    run.say(done.sentence)
    changed = [asdict(one) for one in done.changed]
    return {"sentence": done.sentence, "changed": changed, "firing": len(done.firing), "undelivered": done.undelivered}


if __name__ == "__main__":
    leave(run_job("watch", _work))
