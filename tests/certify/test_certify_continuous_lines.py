"""Continuous drivers killed or frozen at every named line: no record is lost or doubled, whichever layer was at it."""

import time
from dataclasses import replace

import pytest

from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.disturbed import kill, overtaken, survivors
from tests.builders.kill_points import FREEZES, POINTS

QUICK = {"ASSAY_TRIGGER": "every 1 seconds", "ASSAY_GOLD_TRIGGER": "every 1 seconds", "ASSAY_LIFETIME_MIN": "3"}


def streamed(points):
    """The same lines; the layers come by at the same time, so that a count of calls means any of them."""
    return [replace(point, job="stream") for point in points if point.job == "run_layers"]


def assert_whole(stack, scene):
    assert stack.run() is None
    found = assert_every_record_accounted_for(stack)
    assert found.silver == len(scene.undisturbed["silver.cloudtrail_events"])
    assert found.duplicate == len(scene.undisturbed["silver.cloudtrail_events_duplicates"])


@pytest.mark.parametrize("point", streamed(POINTS), ids=lambda point: point.name)
def test_a_continuous_driver_killed_there_loses_and_doubles_no_record(scene, say, point):
    stack = scene.copy(f"continuous_{point.name}".replace(" ", "_").replace("'", ""))
    began = time.monotonic()
    kill(stack, point, **QUICK)
    killed_after = time.monotonic() - began
    assert not survivors(stack)
    stack.discover()
    assert_whole(stack, scene)
    say(f"  continuous, killed {point.name} ({killed_after:.0f} s after its start): every record once after one restart")


@pytest.mark.parametrize("point", streamed(FREEZES), ids=lambda point: point.name)
def test_a_continuous_driver_frozen_there_and_overtaken_doubles_no_record(scene, say, point):
    stack = scene.copy(f"continuous_{point.name}".replace(" ", "_").replace("'", ""))
    stack.discover()
    woken = overtaken(stack, point, **QUICK)
    assert woken.returncode == 3, woken.stderr
    assert_whole(stack, scene)
    say(f"  continuous, {point.name}: overtaken, woken up; every record once")
