"""A crash loop: drivers of a pipeline that failed again and again, without one batch of it coming through in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from spark_jobs.io.relay import driver_of
from spark_jobs.jobs.query_events import newest_events, record_event
from spark_jobs.jobs.run import Run
from spark_jobs.spec.errors import CrashLoop
from spark_jobs.spec.tables import BOOKS

MOST_FAILURES = 30  # with back-off these are hours in which nothing that heals by itself has healed
LATELY = timedelta(days=7)
Attempt = Mapping[str, Any]


def failures_in_a_row(events: Sequence[Attempt], is_alive: Callable[[Attempt], bool] = lambda _: False) -> list[Attempt]:
    """The newest drivers that failed, newest first: the event that says so, or the start of one that was killed.

    `events`: of the drivers, newest first. An end without an error, and the sentence of a crash loop, end the row.
    """
    failed: list[Attempt] = []
    ended: set[tuple[Any, ...]] = set()
    for event in events:
        driver = (event["run_id"], event["host"], event["pid"])
        if event["event"] == "crash_loop":
            break
        if event["event"] == "terminated":
            if event["error"] is None:
                break
            ended.add(driver)
            failed.append(event)
        elif event["event"] == "started":
            if driver not in ended and not is_alive(event):
                failed.append(event)
            ended.discard(driver)  # a process may start more than once
    return failed


def refuse_crash_loop(run: Run) -> None:
    """Raises CrashLoop when the newest 30 drivers failed in a row. Said once: the start after it is tried again."""
    holder = driver_of(run.settings, run.pipeline)

    def is_alive(event: Attempt) -> bool:
        return holder is not None and (holder.host, holder.pid) == (event["host"], event["pid"])

    lately = newest_events(run.settings, run.pipeline, limit=4 * MOST_FAILURES, table="", since=run.clock() - LATELY)
    failed = failures_in_a_row(lately, is_alive)
    if len(failed) < MOST_FAILURES or came_through(run, failed[MOST_FAILURES - 1]["at"]):
        return
    causes = [str(event["error"]) for event in failed if event["error"]]
    raise crash_loop(run, len(failed), failed[-1]["at"], causes[0] if causes else "it was killed, without a word")


def crash_loop(run: Run, failures: int, since: datetime, cause: str) -> CrashLoop:
    """The fault, with the cause in its sentence; recorded."""
    cause = cause.partition(": ")[2] or cause
    sentence = (
        f"{run.pipeline.name} is in a crash loop: its continuous driver failed {failures} times in a row since {since:%Y-%m-%d %H:%M} UTC "
        f"without one batch coming through. The last time: {cause.splitlines()[0].rstrip('.')}. It is not started again by itself; mend "
        f"that, then start it: it goes on from where it was."
    )
    record_event(run, "crash_loop", error=cause, sentence=sentence)
    return CrashLoop(sentence)


def came_through(run: Run, since: datetime) -> bool:
    """True when a batch of any table was finished after this instant."""
    rows = run.ops.read(BOOKS, ["finished_at"], equal={"pipeline": run.pipeline.name}, since={"finished_at": since})
    return bool(rows.num_rows)
