"""Drivers frozen at a line past their last look at the lease: overtaken, woken up, and no row doubled or set back."""

import time

import pytest

from tests.builders.disturbed import differences, everything, overtaken
from tests.builders.kill_points import FREEZES


@pytest.mark.parametrize("point", FREEZES, ids=lambda point: point.name)
def test_a_frozen_driver_that_wakes_up_after_it_was_overtaken_doubles_no_row(scene, say, point):
    stack = scene.copy(point.name.replace(" ", "_").replace("'", ""))
    stack.discover()
    began = time.monotonic()
    woken = overtaken(stack, point)
    assert woken.returncode == 3, woken.stderr
    assert "Traceback" not in woken.stderr
    assert not differences(everything(stack), scene.undisturbed)
    assert stack.run() is None
    assert not differences(everything(stack), scene.undisturbed)
    sentence = woken.stderr.strip().splitlines()[-1]
    say(f"  {point.name}: overtaken, woken up ({time.monotonic() - began:.0f} s), equal; it said: {sentence[:160]}")
