"""When the watch itself cannot read or write the lake (a full disk, a store that is away): told without any table, once an hour.

What was told is remembered by an empty file in the state folder, which a full disk still takes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from spark_jobs.io.channels import Undelivered, channels
from spark_jobs.jobs.storage_faults import storage_fault
from spark_jobs.report.notice import compose, masked, one_line
from spark_jobs.spec.incidents import Incident, State, incident_id
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings

RULE = "watch_blind"
AGAIN_AFTER = timedelta(hours=1)  # nothing else can be told until it is mended


def tell_unwritten(settings: Settings, pipeline: Pipeline, now: datetime, fault: Exception) -> list[str]:
    """Tell every channel, unless that was done within the hour; returns where it went."""
    mark = _mark(settings, pipeline)
    with suppress(OSError):
        if now.timestamp() - mark.stat().st_mtime < AGAIN_AFTER.total_seconds():
            return []
    known = storage_fault(fault, settings.lake_root)
    text = f"{type(fault).__name__}: {fault}"
    why = str(known) if known else text if isinstance(fault, OSError) else masked(text)  # an OSError quotes a path
    sent = _tell(settings, pipeline, "firing", now, now, f"No alert rule can be judged: {one_line(why)}")
    if sent:
        with suppress(OSError):
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
            os.utime(mark, (now.timestamp(), now.timestamp()))
    return sent


def tell_written_again(settings: Settings, pipeline: Pipeline, now: datetime) -> None:
    """After a look that went through: tell that it is over, if it was told that it is not."""
    mark = _mark(settings, pipeline)
    if mark.exists():
        since = datetime.fromtimestamp(mark.stat().st_mtime, UTC)
        if _tell(settings, pipeline, "recovered", since, now, "The alert rules are judged again."):
            mark.unlink(missing_ok=True)


def _tell(settings: Settings, pipeline: Pipeline, state: State, since: datetime, now: datetime, sentence: str) -> list[str]:
    name = incident_id(pipeline.name, RULE, settings.lake_root, f"{since:%Y-%m-%dT%H:%M}")
    incident = Incident(name, pipeline.name, RULE, "lake", state, "critical", sentence, since, now)
    notice = compose(pipeline.name, [incident], form=settings.alert_webhook_form, lake=settings.lake_root)
    sent = []
    for send in channels(settings).values():
        with suppress(Undelivered):
            sent.append(send(notice))
    return sent


def _mark(settings: Settings, pipeline: Pipeline) -> Path:
    return settings.home.absolute() / f"watch_blind.{pipeline.name}"
