"""Batch == stream over many orders, cuts and interleavings of the layers, gates on."""

import os
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from spark_jobs.spec.tables import LAYERS
from tests.builders.deliveries import ANY_ORDER
from tests.builders.increments import FILES_PER_BATCH, Increment, increments, published, run_increments
from tests.builders.stack import Stack

ORDERS = int(os.environ.get("ASSAY_CERTIFY_ORDERS", "40"))
SEEN: Counter[int] = Counter()


@pytest.fixture(scope="module")
def one_batch(tmp_path_factory, spark):
    stack = Stack(tmp_path_factory.mktemp("one_batch"), spark)
    run_increments(stack, [Increment(tuple(ANY_ORDER), LAYERS)])
    return published(stack)


@given(increments(most=6), st.sampled_from(FILES_PER_BATCH))
@settings(
    max_examples=ORDERS,
    deadline=None,
    database=None,
    print_blob=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_increments_in_any_order_end_as_one_batch(spark, one_batch, steps, batch_files):
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(Path(folder), spark, batch_files=batch_files)
        run_increments(stack, steps)
        assert published(stack) == one_batch
    SEEN[len(steps)] += 1


def test_the_orders_were_many_and_unlike(say):
    say(f"  {SEEN.total()} orders equal one batch; by number of increments: {dict(sorted(SEEN.items()))}")
    assert SEEN.total() >= ORDERS
