"""Who may write when: continuous holders among the others, the relay of drivers, the request to end, and the crash loop."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from spark_jobs.cli.stream_keeper import LONGEST_PAUSE_S, pause_s
from spark_jobs.io.lease import Lease, Leases
from spark_jobs.io.lease_holder import CONTINUOUS
from spark_jobs.io.ops import Ops
from spark_jobs.io.relay import ask_to_end, driver_of, end_request, run_continuously, successors
from spark_jobs.jobs.crash_loop import MOST_FAILURES, failures_in_a_row, refuse_crash_loop
from spark_jobs.jobs.ending import Ended, Ending
from spark_jobs.jobs.query_events import newest_events
from spark_jobs.jobs.run import Run
from spark_jobs.spec.errors import CrashLoop, LeaseHeld
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import BOOKS, QUERY_EVENTS, TableId

TABLE = TableId("silver", "cloudtrail_events")
PIPELINE = load_pipeline("cloudtrail")


@pytest.fixture
def settings(tmp_path):
    return load_settings(lake=str(tmp_path / "lake"), lease_ttl_s=60)


@pytest.mark.parametrize("yields", [False, True])
def test_whoever_needs_a_table_of_a_continuous_holder_leaves_a_mark_and_gets_its_turn(settings, yields):
    holder, other = Lease(settings, TABLE, "stream", mode=CONTINUOUS), Lease(settings, TABLE, "replay", yields=yields)
    holder.take()
    said = []
    taker = threading.Thread(target=other.take, args=(said.append,))
    taker.start()
    while not holder.marks():
        assert taker.is_alive(), "it did not wait"
        time.sleep(0.02)
    (mark,) = holder.marks()
    assert (mark.owner, mark.kind) == ("replay", "backfill" if yields else "run")
    assert holder.waiting() == ([] if yields else ["replay"])  # live writers go before backfills, continuous ones too
    holder.release()
    taker.join()
    assert other.epoch == 2 and holder.marks() == [] and "is being written by stream" in said[0]


def test_a_writer_waits_for_its_turn_no_longer_than_it_is_told(tmp_path):
    settings = load_settings(lake=str(tmp_path / "lake"), turn_wait_s=1)
    Lease(settings, TABLE, "stream", mode=CONTINUOUS).take()
    with pytest.raises(LeaseHeld, match="is being written by stream"):
        Lease(settings, TABLE, "replay").take()


def test_a_continuous_holder_waits_for_any_other_until_it_is_to_end(settings):
    Lease(settings, TABLE, "hourly").take()
    looks = []

    def still():
        looks.append(Lease(settings, TABLE, "").waiting())
        if len(looks) == 2:
            raise Ended

    with pytest.raises(Ended), Leases(settings, [TABLE], "stream", mode=CONTINUOUS, still=still):
        pass
    assert looks == [["stream"], ["stream"]]
    assert Lease(settings, TABLE, "").waiting() == []


def test_an_hourly_run_is_told_who_runs_continuously_and_since_when(settings):
    assert run_continuously(settings, PIPELINE) is None
    with Leases(settings, [PIPELINE.relay], "stream-1", mode=CONTINUOUS) as relay:
        relay.say_until(time.time() + 60)
        sentence = run_continuously(settings, PIPELINE)
        assert (
            sentence.startswith("cloudtrail is run continuously by stream-1 (process ")
            and f"since {datetime.now(UTC):%Y-%m-%d}" in sentence
        )
        assert driver_of(settings, PIPELINE).until > time.time() + 50
        assert successors(settings, PIPELINE) == []
    assert run_continuously(settings, PIPELINE) is None


def test_a_request_to_end_is_for_drivers_that_had_begun_before(settings):
    before = time.time()
    ask_to_end(settings, PIPELINE, "ana")
    assert end_request(settings, PIPELINE, before).who == "ana"
    assert end_request(settings, PIPELINE, time.time()) is None


def test_the_first_reason_to_end_is_told_and_a_lifetime_counts_from_its_beginning():
    ending = Ending(lifetime_s=0.05)
    time.sleep(0.06)
    assert ending.why == ""  # while it waits to be the next, its time does not run
    ending.begin_lifetime()
    assert ending.wait(5) and ending.why == "lifetime"
    ending.ask("signal", "late")
    assert ending.why == "lifetime" and "is over" in ending.sentence
    with pytest.raises(Ended):
        ending.check()


def test_failures_are_counted_back_to_the_last_clean_end():
    events = [
        _event("started", 5), _event("terminated", 4, "OSError: disk"), _event("started", 4), _event("started", 3),
        _event("terminated", 2), _event("started", 2), _event("terminated", 1, "OSError: old"), _event("started", 1),
    ]  # fmt: skip
    assert [(row["event"], row["pid"]) for row in failures_in_a_row(events)] == [("started", 5), ("terminated", 4), ("started", 3)]
    alive = failures_in_a_row(events, lambda event: event["pid"] == 5)
    assert [row["pid"] for row in alive] == [4, 3]
    assert failures_in_a_row([_event("crash_loop", 9), *events]) == []


def test_thirty_failures_without_a_batch_are_a_crash_loop_said_once(settings):
    run = Run(settings, PIPELINE, "stream-31")
    _fail(settings, range(MOST_FAILURES))
    with pytest.raises(CrashLoop, match=r"failed 30 times in a row since .* The last time: the disk is full 29\. It is not started again"):
        refuse_crash_loop(run)
    assert newest_events(settings, PIPELINE, table="")[0]["event"] == "crash_loop"
    refuse_crash_loop(run)  # a person has started it again


def test_a_batch_that_came_through_ends_the_row(settings):
    _fail(settings, range(2))
    Ops(settings).append(BOOKS, [{"pipeline": "cloudtrail", "table": str(TABLE), "finished_at": datetime.now(UTC)}])
    _fail(settings, range(2, MOST_FAILURES))
    refuse_crash_loop(Run(settings, PIPELINE, "stream-31"))


def test_the_pause_before_a_restart_doubles_up_to_a_minute():
    assert [pause_s(failures) for failures in (1, 2, 3, 7, 30)] == [1, 2, 4, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


def _fail(settings, numbers):
    """Drivers that started and ended with an error, as they leave it."""
    rows = []
    for number in numbers:
        for event, error in (("started", None), ("terminated", f"OSError: the disk is full {number}")):
            own = {"pipeline": "cloudtrail", "table": "", "run_id": f"stream-{number}", "host": "h", "pid": number}
            rows.append({**own, "event": event, "error": error, "at": datetime.now(UTC)})
    Ops(settings).append(QUERY_EVENTS, rows)


def _event(event, pid, error=None):
    return {
        "event": event,
        "run_id": f"stream-{pid}",
        "host": "h",
        "pid": pid,
        "error": error,
        "at": datetime.now(UTC) - timedelta(hours=1),
    }
