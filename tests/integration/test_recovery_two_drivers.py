"""Two drivers on one lake: the second is refused; a frozen one that wakes up after it was overtaken writes nothing twice."""

import json

from spark_jobs.io.lease import Leases
from tests.builders.disturbed import differences, everything, overtaken
from tests.builders.kill_at import KillPoint
from tests.builders.kill_points import COMMIT


def test_a_second_driver_is_refused_with_a_sentence_and_exit_code_3(scene):
    stack = scene.copy("second")
    stack.discover()
    before = everything(stack)
    with Leases(stack.settings, stack.pipeline.tables("bronze"), "the first run"):
        refused = stack.job("run_layers")
    assert refused.returncode == 3
    assert "bronze.cloudtrail_records is being written by the first run (process " in refused.stderr
    assert "Traceback" not in refused.stderr
    assert json.loads(refused.stdout.splitlines()[-1])["error"] == "LeaseHeld"
    assert everything(stack) == before


def test_a_frozen_driver_that_wakes_up_after_it_was_overtaken_doubles_no_row(scene):
    stack = scene.copy("frozen")
    stack.discover()
    woken = overtaken(stack, KillPoint("before the bronze commit", COMMIT, freeze=True))
    assert not differences(everything(stack), scene.undisturbed)
    assert woken.returncode == 3
    assert "bronze.cloudtrail_records: batch v1-00000001 was committed by run" in woken.stderr
    assert "Traceback" not in woken.stderr
