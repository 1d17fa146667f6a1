"""Chunks of backfills killed at every line; ninety days of history in many orders, beside live runs."""

import os
import tempfile
import time
from pathlib import Path

import pytest

from tests.builders.backfill_kills import CHUNK_POINTS, finish, kill_chunk, planned
from tests.builders.disturbed import differences, survivors
from tests.builders.history import history, land_history, load_in_disorder
from tests.builders.increments import published
from tests.builders.stack import Stack

ORDERS = int(os.environ.get("ASSAY_CERTIFY_HISTORIES", "10"))


@pytest.fixture(scope="module")
def undisturbed(scene):
    stack = scene.copy("calm_chunk")
    return finish(stack, planned(stack))


@pytest.mark.parametrize("point", CHUNK_POINTS, ids=lambda point: point.name)
def test_a_chunk_killed_there_and_run_again_ends_as_if_undisturbed(scene, undisturbed, say, point):
    stack = scene.copy("chunk_" + point.name.replace(" ", "_").replace("'", ""))
    backfill = planned(stack)
    began = time.monotonic()
    kill_chunk(stack, backfill, point)
    killed_after = time.monotonic() - began
    assert not survivors(stack)
    assert not differences(finish(stack, backfill), undisturbed)
    say(f"  a chunk killed {point.name} ({killed_after:.0f} s after its start): equal when run again")


@pytest.mark.parametrize("seed", range(ORDERS))
def test_ninety_days_in_this_order_end_as_all_of_it_at_once(spark, say, seed):
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(Path(folder) / "disorder", spark, recent_dates=3, batch_files=64)
        land_history(stack.landing, history())
        stack.discover(sweep=False)
        assert stack.run() is None
        said = load_in_disorder(stack, seed, chunk_files=25, hourly_runs=3)
        in_order = Stack(Path(folder) / "order", spark, batch_files=200)
        in_order.landing.rmdir()
        in_order.landing.symlink_to(stack.landing)
        in_order.discover(sweep=True)
        assert in_order.run() is None
        assert published(stack) == published(in_order)
        say(f"  seed {seed}: {len(said)} chunks of two overlapping backfills in disorder, 3 hourly runs in between: equal")
