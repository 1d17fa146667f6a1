"""What must hold in the end, whatever happened."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from spark_jobs.io.relay import driver_of
from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.stack import Stack
from tests.soak.landing_load import LandingLoad
from tests.soak.readers import Reader
from tests.soak.services import Service, left_over

CATCH_UP_S = 600.0  # what landed last, after the last restart's back-off
LOOK_EVERY_S = 10.0


def wait_for_driver(stack: Stack, tend: Callable[[], None]) -> None:
    """Until the first driver is at work: before it there is nothing to disturb."""
    deadline = time.monotonic() + CATCH_UP_S
    while driver_of(stack.settings, stack.pipeline) is None:
        assert time.monotonic() < deadline, "no driver has come to work"
        tend()
        time.sleep(0.5)


def wait_until_caught_up(stack: Stack, tend: Callable[[], None]) -> float:
    """Seconds until every record is accounted for while the run is alive; raises what is missing when it takes too long."""
    began = time.monotonic()
    while True:
        tend()
        try:
            assert_every_record_accounted_for(stack)
            return time.monotonic() - began
        except Exception:  # also a table that was replaced between two looks at it
            if time.monotonic() - began > CATCH_UP_S:
                raise
        time.sleep(LOOK_EVERY_S)  # the accounting reads everything


def broken(stack: Stack, service: Service, load: LandingLoad, reader: Reader) -> Iterator[str]:
    """A sentence for each invariant that does not hold, after everything has ended."""
    if left := left_over(stack, service):
        yield f"{len(left)} processes are left: {', '.join(f'{one.pid} ({one.name()})' for one in left)}"
        for process in left:
            process.kill()
    try:
        accounted = assert_every_record_accounted_for(stack)
        print(f"Accounted for: {accounted}")
    except AssertionError as fault:
        yield f"not every record is accounted for: {str(fault).splitlines()[0]}"
    there = [row["event_id"] for table in ("", "_held") for row in stack.rows(f"silver.cloudtrail_events{table}", ["event_id"])]
    if lost := load.wanted - set(there):
        yield f"{len(lost)} events of whole files are nowhere, e.g. {sorted(lost)[:3]}"
    if len(there) != len(set(there)):
        yield f"{len(there) - len(set(there))} events are there twice"
    unbalanced = [row for row in stack.rows("_ops.books") if not row["is_balanced"]]
    if unbalanced:
        yield f"{len(unbalanced)} batches' books do not balance"
    for torn in sorted(set(reader.torn))[:10]:
        yield f"torn read: {torn}"
    if not reader.looks:
        yield "no reader has looked"
