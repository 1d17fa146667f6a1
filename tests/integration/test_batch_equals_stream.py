"""Batch == stream: however files are ordered and cut into increments, the tables are those of one batch. More orders: `make certify`."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from spark_jobs.spec.tables import LAYERS
from tests.builders.deliveries import ANY_ORDER
from tests.builders.increments import FILES_PER_BATCH, Increment, increments, published, run_increments
from tests.builders.stack import Stack


@pytest.fixture(scope="module")
def one_batch(tmp_path_factory, spark):
    stack = Stack(tmp_path_factory.mktemp("one_batch"), spark, gates=False)
    run_increments(stack, [Increment(tuple(ANY_ORDER), LAYERS)])
    return published(stack)


def test_one_batch_has_all_that_the_orders_are_compared_by(one_batch):
    assert {name: len(rows) for name, rows in one_batch.items() if "books" not in name} == {
        "bronze.cloudtrail_records": 25,
        "bronze quarantine": 2,
        "silver.cloudtrail_events": 16,
        "silver quarantine": 3,
        "duplicates": 6,
        "outcomes": 9,
        "gold.cloudtrail_activity_1h": 3,
        "gold.cloudtrail_principal_activity_1h": 3,
        "gold.cloudtrail_denied_15m": 3,
        "gold.cloudtrail_account_activity_1d": 2,
        "gold.cloudtrail_first_seen": 4,
    }
    assert one_batch["silver books"] | {"files_read": 0, "files_ok": 0} == {
        "read": 25, "written": 16, "quarantined": 3, "duplicate": 6, "held": 0, "files_read": 0, "files_ok": 0,
    }  # fmt: skip


@given(increments(), st.sampled_from(FILES_PER_BATCH))
@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,  # the orders of `make test` are always the same ones; `make certify` draws new ones
    database=None,
    phases=[Phase.generate],  # an order is short enough to be read as it is; shrinking it would take many runs
    suppress_health_check=list(HealthCheck),
)
def test_increments_in_any_order_end_as_one_batch(spark, one_batch, steps, batch_files):
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(Path(folder), spark, gates=False, batch_files=batch_files)
        run_increments(stack, steps)
        assert published(stack) == one_batch


def test_much_input_is_worked_on_in_another_way_and_ends_the_same(tmp_path, spark, one_batch):
    files, half = tuple(ANY_ORDER), len(ANY_ORDER) // 2
    stack = Stack(tmp_path, spark, gates=False)
    stack.small = False
    run_increments(stack, [Increment(files[:half], LAYERS), Increment(files[half:], LAYERS)])
    assert published(stack) == one_batch
