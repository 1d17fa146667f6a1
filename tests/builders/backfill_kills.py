"""A backfill of the scene's second delivery, and the places at which killing one of its chunks must cost nothing but time."""

from __future__ import annotations

import signal
import subprocess

from spark_jobs.jobs.backfill_chunk import work_chunk
from spark_jobs.jobs.backfill_plan import plan
from spark_jobs.spec.backfill import BackfillRequest
from tests.builders.disturbed import everything
from tests.builders.kill_at import KillPoint, command
from tests.builders.kill_points import BOOKS, COMMIT, GOLD, SIDE
from tests.builders.stack import PROJECT, Stack

MOVE, NOTE = "spark_jobs.io.backfill_store:BackfillStore.move", "spark_jobs.io.backfill_store:BackfillStore.note"
ADMIT = "spark_jobs.io.ledger:_commit"
CLAIMED = KillPoint("after the claim", MOVE, "after")
ADMITTED = KillPoint("after the admission", ADMIT, "after")
SILVER = KillPoint("after silver, before its books", COMMIT, "after", 2)

# The chunk is two pieces: each is admitted, then read by bronze (COMMIT 1 and 3) and silver (2 and 4); gold takes both at once.
CHUNK_POINTS = (
    CLAIMED,
    KillPoint("before the figures of each day are kept", NOTE),
    KillPoint("before the admission", ADMIT),
    ADMITTED,
    KillPoint("before it says that it admitted", MOVE, call=2),
    KillPoint("after it said that it admitted", MOVE, "after", 2),
    KillPoint("after bronze's side table", SIDE, "after"),
    KillPoint("before bronze", COMMIT),
    KillPoint("after bronze, before its books", COMMIT, "after"),
    KillPoint("before silver", COMMIT, call=2),
    SILVER,
    KillPoint("before gold", GOLD),
    KillPoint("between two gold tables", GOLD, "after", 1),
    KillPoint("after the last gold table, before its books", GOLD, "after", 3),
    KillPoint("after the books of the second piece in silver", BOOKS, "after", 4),
    KillPoint("before the second admission", ADMIT, call=2),
    KillPoint("after the second admission", ADMIT, "after", 2),
    KillPoint("after bronze of the second piece", COMMIT, "after", 3),
    KillPoint("before it says that it is done", MOVE, call=3),
    KillPoint("after it said that it is done", MOVE, "after", 3),
)


def planned(stack: Stack) -> str:
    """The id of the plan; the same on every copy of the scene."""
    request = BackfillRequest.parse("load", "2024-05-01", "2024-05-01")
    return str(plan(stack.start("the backfill"), request)["backfill_id"])


def kill_chunk(stack: Stack, backfill_id: str, point: KillPoint) -> None:
    """Start the chunk as a process of its own; it is killed at the point."""
    words = command(point, stack.command("backfill_chunk", "--backfill", backfill_id, "--chunk", "0"))
    done = subprocess.run(words, env=stack.environment(), cwd=PROJECT, text=True, capture_output=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, f"{point.name}: it ended with {done.returncode} before it met the point\n{done.stderr}"


def finish(stack: Stack, backfill_id: str) -> dict[str, list[str]]:
    """Run the chunk to its end; all tables of the lake."""
    work_chunk(stack.start(), backfill_id, 0)
    return everything(stack)
