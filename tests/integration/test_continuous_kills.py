"""A continuous run whose task, worker, JVM are killed, and whose driver is frozen and overtaken: every record once, no process left."""

import pytest

from spark_jobs.io.relay import ask_to_end, driver_of
from spark_jobs.io.work import named_silver_version
from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.continuous_driver import QUICK, Driver, until
from tests.builders.deliveries import text
from tests.builders.disturbed import survivors
from tests.builders.landing_files import document, log_path, packed
from tests.builders.stack import Stack

PART = 4  # new events of a delivery; another one is a re-delivery of the delivery before


@pytest.fixture
def stack(tmp_path):
    stack = Stack(tmp_path, **QUICK)
    yield stack
    for process in survivors(stack, within_s=0):
        process.kill()


def deliver(stack, part):
    events = [text(number) for number in range(part * PART, part * PART + PART)]
    stack.land(log_path(2 * part), packed(document([*events, text(max(0, part * PART - 1))])))
    stack.land(log_path(2 * part + 1), b"this is no gzip")


def published(stack):
    return len(stack.rows("silver.cloudtrail_events", ["event_id"]))


def listed(stack):
    return len(stack.rows("_ops.files", ["path"]))


def is_told(stack):
    """Gold names silver as it is now."""
    names = {named_silver_version(stack.settings, stack.pipeline, table) for table in stack.pipeline.gold_tables_of("hourly")}
    silver = stack.rows("silver.cloudtrail_events", ["event_id"])
    gold = stack.rows("gold.cloudtrail_activity_1h", ["event_count"])
    return None not in names and sum(row["event_count"] for row in gold) == len(silver)


@pytest.mark.timeout(600)
def test_killed_frozen_and_overtaken_a_continuous_run_counts_every_record_once(stack):
    # The process of its task is killed: all of the driver ends, and nobody need wait for its lease to lapse.
    first = Driver(stack, "first")
    deliver(stack, 0)
    until(lambda: published(stack) == PART, "the first driver published nothing")
    first.task.kill()
    assert first.task.wait() and not survivors(stack)
    assert driver_of(stack.settings, stack.pipeline) is None

    # A Python worker is killed in the middle of a file: it is frozen until it has one.
    second = Driver(stack, "second")
    deliver(stack, 1)
    until(lambda: published(stack) == 2 * PART, "the second driver did not go on")
    workers = second.workers()
    assert workers
    for worker in workers:
        worker.suspend()
    deliver(stack, 2)
    until(lambda: listed(stack) == 6, "the delivery was not listed")
    for worker in workers:
        worker.kill()
    until(lambda: second.task.poll() is not None or published(stack) == 3 * PART, "it neither healed nor ended")
    # The JVM is killed, unless the driver has ended by the worker's death: then the task's next try has it to do.
    if second.task.poll() is None:
        second.jvm().kill()
    assert second.task.wait() and not survivors(stack)

    # A driver is frozen in the middle of a batch; another one overtakes it; it wakes up beside it.
    third = Driver(stack, "third")
    until(lambda: published(stack) == 3 * PART, "the third driver did not go on")
    deliver(stack, 3)
    until(lambda: listed(stack) == 8, "the delivery was not listed")
    frozen = third.freeze()
    fourth = Driver(stack, "fourth")
    until(fourth.is_at_work, "the frozen driver was not overtaken")
    until(lambda: published(stack) == 4 * PART, "the fourth driver did not go on")
    for process in frozen:
        process.resume()
    deliver(stack, 4)
    assert third.task.wait(timeout=120) == 3, "one that was overtaken stops, for want of the lease"
    until(lambda: published(stack) == 5 * PART and is_told(stack), "the fourth driver did not finish")
    assert fourth.is_at_work()

    ask_to_end(stack.settings, stack.pipeline, "the test")
    assert fourth.task.wait(timeout=120) == 0
    assert not survivors(stack)
    found = assert_every_record_accounted_for(stack)
    assert (found.silver, found.duplicate, found.files_failed) == (5 * PART, 5, 5)
