"""Continuous drivers killed or frozen at every named line: no record is lost or doubled, whichever layer was at it."""

import time

import pytest

from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.disturbed import kill, overtaken, survivors
from tests.builders.kill_at import KillPoint
from tests.builders.kill_points import BOOKS, COMMIT, GOLD, SIDE

QUICK = {"ASSAY_TRIGGER": "every 1 seconds", "ASSAY_GOLD_TRIGGER": "every 1 seconds", "ASSAY_LIFETIME_MIN": "3"}


def at(name, function, when="before", call=1, appears="", *, freeze=False):
    return KillPoint(name, function, when, call, appears, freeze, job="stream")


# A continuous driver takes both ledger files in one batch: the first commit is bronze's, the second silver's. Where its batches are cut
# otherwise, the line is met at another layer's turn, which must cost as little.
LEDGER_COMMIT, TAKE = "spark_jobs.io.ledger:_commit", "spark_jobs.io.lease:Lease.take"
KILLS = (
    at("after it took the relay", TAKE, "after"),
    at("after all leases were taken", TAKE, "after", 6),
    at("before the ledger commit", LEDGER_COMMIT),
    at("after the ledger commit", LEDGER_COMMIT, "after"),
    at("after the files were read, before their outcomes", "spark_jobs.io.ops:Ops.replace_batch"),
    at("after bronze's side table, before bronze", COMMIT),
    at("while bronze writes", COMMIT, appears="bronze/cloudtrail_records/**/*.parquet"),
    at("after bronze, before its books", COMMIT, "after"),
    at("after bronze's books, before its checkpoint", BOOKS, "after"),
    at("while silver's first side table is written", SIDE, call=2, appears="silver/cloudtrail_events_quarantine/**/*.parquet"),
    at("after all side tables, before silver", COMMIT, call=2),
    at("while silver writes", COMMIT, call=2, appears="silver/cloudtrail_events/**/*.parquet"),
    at("after silver, before its books", COMMIT, "after", 2),
    at("after silver's books, before its checkpoint", BOOKS, "after", 2),
    at("while the first gold table is written", GOLD, appears="gold/cloudtrail_activity_1h/**/*.parquet"),
    at("between two gold tables", BOOKS, "after", 3),
    at("after the last gold commit, before its books", GOLD, "after", 3),
    at("after the last books, before gold's checkpoint", BOOKS, "after", 5),
)
FROZEN = (
    at("frozen before the bronze commit", COMMIT, freeze=True),
    at("frozen after the bronze commit", COMMIT, "after", freeze=True),
    at("frozen before silver's duplicates are written", SIDE, call=3, freeze=True),
    at("frozen before the silver commit", COMMIT, call=2, freeze=True),
    at("frozen before the first gold commit", GOLD, freeze=True),
    at("frozen before the last gold commit", GOLD, call=3, freeze=True),
)


def assert_whole(stack, scene):
    assert stack.run() is None
    found = assert_every_record_accounted_for(stack)
    assert found.silver == len(scene.undisturbed["silver.cloudtrail_events"])
    assert found.duplicate == len(scene.undisturbed["silver.cloudtrail_events_duplicates"])


@pytest.mark.parametrize("point", KILLS, ids=lambda point: point.name)
def test_a_continuous_driver_killed_there_loses_and_doubles_no_record(scene, say, point):
    stack = scene.copy(f"continuous_{point.name}".replace(" ", "_").replace("'", ""))
    began = time.monotonic()
    kill(stack, point, **QUICK)
    killed_after = time.monotonic() - began
    assert not survivors(stack)
    stack.discover()
    assert_whole(stack, scene)
    say(f"  continuous, killed {point.name} ({killed_after:.0f} s after its start): every record once after one restart")


@pytest.mark.parametrize("point", FROZEN, ids=lambda point: point.name)
def test_a_continuous_driver_frozen_there_and_overtaken_doubles_no_record(scene, say, point):
    stack = scene.copy(f"continuous_{point.name}".replace(" ", "_").replace("'", ""))
    stack.discover()
    woken = overtaken(stack, point, **QUICK)
    assert woken.returncode == 3, woken.stderr
    assert_whole(stack, scene)
    say(f"  continuous, {point.name}: overtaken, woken up; every record once")
