"""Ninety days of small daily CloudTrail files with old modification times, and their way into a lake in any order."""

from __future__ import annotations

import os
import random
from datetime import date, timedelta
from pathlib import Path

from spark_jobs.jobs.backfill_chunk import work_chunk
from spark_jobs.jobs.backfill_plan import plan
from spark_jobs.spec.backfill import BackfillRequest
from tests.builders.deliveries import NO_EVENT_ID
from tests.builders.events import event_text
from tests.builders.landing_files import document, packed
from tests.builders.stack import Stack

DAYS = 90
FIRST = date(2024, 2, 1)
ACCOUNT = "111122223333"


def history(days: int = DAYS) -> dict[str, bytes]:
    """By name: a file a day with an event of that day, one of the evening before, one delivered again 30 days later, some broken."""
    return {name_of(FIRST + timedelta(days=n)): _file(n) for n in range(days)}


def name_of(day: date, mark: str = "") -> str:
    folder = f"AWSLogs/{ACCOUNT}/CloudTrail/eu-west-1/{day:%Y/%m/%d}"
    return f"{folder}/{ACCOUNT}_CloudTrail_eu-west-1_{day:%Y%m%d}T0005Z_{mark or 'daily'}.json.gz"


def _file(n: int) -> bytes:
    day = FIRST + timedelta(days=n)
    records = [
        _event(3 * n, day, "12:00:00"),
        _event(3 * n + 1, day - timedelta(days=1), "23:55:00", errorCode="AccessDenied"),
    ]
    if n >= 30:
        records.append(_event(3 * (n - 30), day - timedelta(days=30), "12:00:00"))  # delivered again, the same
    if n % 20 == 7:
        records.append(NO_EVENT_ID)
    return packed(document(records))


def _event(number: int, day: date, time: str, **changes: object) -> bytes:
    return event_text(1_000 + number, eventTime=f"{day}T{time}Z", **changes).encode()


def land_history(landing: Path, files: dict[str, bytes]) -> None:
    """As a restore from an archive leaves it: modification times years ago, none in the order of the dates."""
    for n, (name, content) in enumerate(files.items()):
        path = landing / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        when = 1_500_000_000 + (n * 7919) % 100_000
        os.utime(path, (when, when))


def load_in_disorder(stack: Stack, seed: int, *, chunk_files: int, hourly_runs: int = 2) -> list[str]:
    """Two overlapping backfills, their chunks shuffled, with hourly runs that find something in between; returns what each chunk said."""
    order = random.Random(seed)
    last = FIRST + timedelta(days=DAYS - 1)
    requests = [
        BackfillRequest("load", FIRST, FIRST + timedelta(days=59), chunk_files=chunk_files, is_newest_first=order.random() < 0.5),
        BackfillRequest("load", FIRST + timedelta(days=40), last, chunk_files=chunk_files, is_newest_first=order.random() < 0.5),
    ]
    plans = [plan(stack.start(f"plan-{seed}-{n}"), request) for n, request in enumerate(requests)]
    work = [(row["backfill_id"], number) for row in plans for number in range(row["chunks"])]
    order.shuffle(work)
    between = set(order.sample(range(len(work)), hourly_runs))
    said = []
    for n, (backfill_id, number) in enumerate(work):
        if n in between:
            land_history(stack.landing, {name_of(last, f"hour{n}"): packed(document([_event(900 + n, last, f"1{n}:30:00")]))})
            stack.discover(sweep=False)
            if order.random() < 0.5:  # else the chunk finds the live file pending, and lets it go first
                assert stack.run() is None
        said.append(work_chunk(stack.start(), backfill_id, number)["sentence"])
    return said
