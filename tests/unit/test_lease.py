"""One writer per table."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from spark_jobs.io.lease import Lease, Leases
from spark_jobs.spec.errors import LeaseHeld, LeaseLost
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import TableId

TABLE = TableId("silver", "x_events")


@pytest.fixture
def settings(tmp_path):
    return load_settings(lake=str(tmp_path / "lake"), lease_ttl_s=5)


def test_a_second_writer_is_refused_with_a_sentence_that_names_the_first(settings):
    first = Lease(settings, TABLE, "run-1")
    first.take()
    with pytest.raises(LeaseHeld, match=rf"silver.x_events is being written by run-1 \(process {os.getpid()}"):
        Lease(settings, TABLE, "run-2").take()


def test_a_released_lease_is_free_and_the_epoch_goes_on(settings):
    first, second = Lease(settings, TABLE, "a"), Lease(settings, TABLE, "b")
    first.take()
    first.release()
    second.take()
    assert second.epoch == 2


def test_the_lease_of_a_killed_process_is_taken_over_at_once(settings):
    code = f"""
import os, signal
from spark_jobs.io.lease import Lease
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import TableId
Lease(load_settings(lake={settings.lake!r}), TableId("silver", "x_events"), "doomed").take()
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    survivor = Lease(settings, TABLE, "survivor")
    survivor.take()
    assert survivor.epoch == 2


def test_a_writer_that_was_overtaken_notices_before_it_commits(settings, tmp_path):
    frozen = Lease(settings, TABLE, "frozen")
    frozen.take()
    _last_seen_long_ago(tmp_path, frozen.epoch)
    Lease(settings, TABLE, "awake").take()
    with pytest.raises(LeaseLost, match="taken over"):
        frozen.check()
    with pytest.raises(LeaseLost):
        frozen.renew()


def test_a_lost_lease_is_not_released_for_the_one_who_has_it(settings, tmp_path):
    frozen, awake = Lease(settings, TABLE, "frozen"), Lease(settings, TABLE, "awake")
    frozen.take()
    _last_seen_long_ago(tmp_path, 1)
    awake.take()
    frozen.release()
    awake.check()
    with pytest.raises(LeaseHeld):
        Lease(settings, TABLE, "third").take()


def test_of_many_takers_at_once_exactly_one_gets_it(settings):
    won, refused = [], []

    def take(name: str) -> None:
        try:
            Lease(settings, TABLE, name).take()
            won.append(name)
        except LeaseHeld:
            refused.append(name)

    takers = [threading.Thread(target=take, args=(f"run-{n}",)) for n in range(12)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()
    assert (len(won), len(refused)) == (1, 11)


def test_leases_are_renewed_while_held_and_given_back_after(settings, tmp_path):
    with Leases(settings, [TABLE], "run"):
        before = _holder(tmp_path, 1)["renewed_at"]
        time.sleep(1.8)
        assert _holder(tmp_path, 1)["renewed_at"] > before
    assert _holder(tmp_path, 1)["released"]


def test_when_one_of_several_leases_is_held_none_is_kept(settings):
    other = TableId("silver", "a_events")
    Lease(settings, TABLE, "busy").take()
    with pytest.raises(LeaseHeld), Leases(settings, [other, TABLE], "run"):
        pass
    Lease(settings, other, "next").take()


def test_a_live_writer_waits_for_a_backfill_which_sees_it_and_steps_back(settings):
    backfill, live = Lease(settings, TABLE, "backfill bf_1", yields=True), Lease(settings, TABLE, "hourly")
    backfill.take()
    assert backfill.waiting() == []
    said = []
    taker = threading.Thread(target=live.take, args=(said.append,))
    taker.start()
    while not backfill.waiting():
        time.sleep(0.02)
    assert backfill.waiting() == ["hourly"]
    backfill.release()
    taker.join()
    assert live.epoch == 2 and "backfill bf_1" in said[0]
    assert backfill.waiting() == []
    with pytest.raises(LeaseHeld, match="is being written by hourly"):  # a backfill never waits with a live writer's patience
        Lease(settings, TABLE, "backfill bf_2", yields=True).take()


def test_patience_ends_with_a_sentence_and_what_was_taken_is_given_back(tmp_path):
    settings = load_settings(lake=str(tmp_path / "lake"), lease_ttl_s=5, lease_wait_s=2)
    other = TableId("silver", "a_events")
    Lease(settings, TABLE, "busy").take()
    with pytest.raises(LeaseHeld, match="is being written by busy"), Leases(settings, [other, TABLE], "patient", say=print):
        pass
    first = json.loads((tmp_path / "lake/_leases/silver.a_events/00000001").read_text())
    assert first["released"] and not list((tmp_path / "lake/_leases").rglob("waiting.*"))


def test_the_mark_of_a_writer_that_is_gone_holds_nobody_back(settings, tmp_path):
    backfill = Lease(settings, TABLE, "backfill", yields=True)
    backfill.take()
    mark = tmp_path / "lake/_leases/silver.x_events/waiting.host.1"
    mark.write_text(json.dumps({"owner": "killed", "at": time.time() - 60}))
    assert backfill.waiting() == []
    mark.write_text(json.dumps({"owner": "alive", "at": time.time()}))
    assert backfill.waiting() == ["alive"]


def _holder(tmp_path, epoch):
    return json.loads((tmp_path / "lake/_leases/silver.x_events" / f"{epoch:08d}").read_text())


def _last_seen_long_ago(tmp_path, epoch):
    path = tmp_path / "lake/_leases/silver.x_events" / f"{epoch:08d}"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"renewed_at": 1.0}))
