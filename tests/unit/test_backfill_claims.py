"""A chunk is claimed once, a dead claimer's can be claimed again, and cancelling leaves a state that says what is done. No Spark."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from typer.testing import CliRunner

from spark_jobs.cli.backfill import app
from spark_jobs.io.backfill_store import BackfillStore, chunk_lease_name
from spark_jobs.io.lease import Lease, Leases
from spark_jobs.io.work import is_small
from spark_jobs.jobs.backfill_cancel import cancel
from spark_jobs.jobs.backfill_chunk import work_chunk
from spark_jobs.jobs.backfill_plan import plan
from spark_jobs.jobs.run import Run
from spark_jobs.jobs.turns import TurnNeverCame, Turns
from spark_jobs.spec.backfill import OPEN, BackfillRequest
from spark_jobs.spec.errors import ConfigurationFault, LeaseHeld, UnknownName
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.settings import load_settings
from tests.builders.ops_rows import consumed, small_lake

PIPELINE = load_pipeline("cloudtrail")


@pytest.fixture
def settings(tmp_path):
    return load_settings(home=tmp_path, lake=str(tmp_path / "lake"), landing=str(tmp_path / "landing"), lease_ttl_s=5, backfill_wait_s=2)


@pytest.fixture
def run(settings):
    return Run(settings, PIPELINE, "r1")


@pytest.fixture
def backfill(run, tmp_path):
    """Three chunks whose files have vanished since: claiming, doing and ending them needs no Spark."""
    for day in range(1, 7):
        file = tmp_path / f"landing/AWSLogs/111122223333/CloudTrail/eu-west-1/2024/05/{day:02}/f.json.gz"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x")
    name = plan(run, BackfillRequest.parse("load", "2024-05-01", "2024-05-31", chunk_files=2))["backfill_id"]
    for file in (tmp_path / "landing").rglob("*.gz"):
        file.unlink()
    return name


def states(settings, name):
    return [chunk["state"] for chunk in BackfillStore(settings).chunks(name)]


def test_of_many_who_claim_a_chunk_at_once_one_gets_it(settings, backfill):
    store, won, barrier = BackfillStore(settings), [], threading.Barrier(6)

    def claim(name):
        barrier.wait()
        won.extend(store.move(backfill, lambda row: {"state": "claimed", "claimed_by": name} if row["state"] == "planned" else None))

    takers = [threading.Thread(target=claim, args=(f"p{n}",)) for n in range(6)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()
    assert sorted(row["chunk"] for row in won) == [0, 1, 2]
    assert states(settings, backfill) == ["claimed"] * 3
    assert all(json.loads(chunk["content"])["files"] for chunk in store.chunks(backfill)), "what is in a chunk is kept"


def test_a_chunk_at_work_is_refused_and_a_done_one_is_left_alone(settings, run, backfill):
    with Leases(settings, [chunk_lease_name(backfill, 0)], "the first"), pytest.raises(LeaseHeld, match="is being written by the first"):
        work_chunk(run, backfill, 0)
    assert states(settings, backfill)[0] == "planned"
    done = work_chunk(run, backfill, 0)
    assert done["vanished"] == 2 and "2 have vanished since the plan" in done["sentence"]
    assert work_chunk(run, backfill, 0)["sentence"] == f"Chunk 0 of {backfill} is done; there is nothing to do."
    assert states(settings, backfill) == ["done", "planned", "planned"]
    with pytest.raises(UnknownName, match="has no chunk 7"):
        work_chunk(run, backfill, 7)
    with pytest.raises(UnknownName, match="There is no backfill"):
        work_chunk(run, "bf_000000000000", 0)


def test_the_chunk_of_a_killed_process_is_claimed_again(settings, run, backfill):
    code = f"""
import os, signal
from spark_jobs.io.backfill_store import BackfillStore
from spark_jobs.io.lease import Lease
from spark_jobs.io.backfill_store import chunk_lease_name
from spark_jobs.spec.settings import load_settings
from tests.builders.ops_rows import consumed, small_lake
settings = load_settings(lake={settings.lake!r}, landing={settings.landing!r}, lease_ttl_s=120)
Lease(settings, chunk_lease_name({backfill!r}, 1), "doomed").take()
BackfillStore(settings).move({backfill!r}, lambda row: {{"state": "claimed", "claimed_by": "doomed"}} if row["chunk"] == 1 else None)
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert states(settings, backfill)[1] == "claimed"
    shown = invoke(settings, "status", backfill)
    assert "nobody: doomed is gone" in shown and "3 of 3 chunks are left" in shown
    assert work_chunk(run, backfill, 1)["state"] == "done"


def test_cancelling_takes_back_what_nobody_is_at_work_on(settings, run, backfill):
    work_chunk(run, backfill, 0)
    with Leases(settings, [chunk_lease_name(backfill, 1)], "worker"):
        BackfillStore(settings).move(backfill, lambda row: {"state": "claimed"} if row["chunk"] == 1 else None)
        said = cancel(run, backfill, "ann")
        assert (said["cancelled"], said["done"], said["at_work"]) == (1, 1, [1])
        assert "Chunk 1 is at work and ends in its own time" in said["sentence"]
        assert states(settings, backfill) == ["done", "claimed", "cancelled"]
        assert BackfillStore(settings).get(backfill)["state"] == "running"
    work_chunk(run, backfill, 1)
    assert states(settings, backfill) == ["done", "done", "cancelled"]
    assert BackfillStore(settings).get(backfill)["state"] == "cancelled"
    assert work_chunk(run, backfill, 2)["state"] == "cancelled"
    assert "nothing to cancel" in cancel(run, backfill, "ann")["sentence"]


def test_a_chunk_that_was_left_behind_can_be_cancelled(settings, run, backfill):
    BackfillStore(settings).move(backfill, lambda row: {"state": "admitted"} if row["chunk"] == 1 else None)  # and its process is gone
    assert cancel(run, backfill, "ann")["cancelled"] == 3
    assert BackfillStore(settings).get(backfill)["state"] == "cancelled"


def test_all_chunks_done_the_backfill_is_done_with_what_it_took(settings, run, backfill):
    for number in (2, 0, 1):
        assert BackfillStore(settings).get(backfill)["state"] in ("planned", "running")
        work_chunk(run, backfill, number)
    row = BackfillStore(settings).get(backfill)
    chunks = BackfillStore(settings).chunks(backfill)
    assert row["state"] == "done" and not any(chunk["state"] in OPEN for chunk in chunks)
    assert row["actual_s"] == pytest.approx(sum(chunk["wall_s"] for chunk in chunks))


def test_a_backfill_steps_back_for_a_live_writer_that_waits_and_gives_up_with_a_sentence(settings, run):
    turns, worked = Turns(run), []
    holder = Lease(settings, PIPELINE.silver_table, "backfill", yields=True)
    holder.take()
    live = threading.Thread(target=Lease(settings, PIPELINE.silver_table, "hourly").take)
    live.start()
    while not turns.live_writers_waiting():
        pass
    assert turns.live_writers_waiting() == ["hourly"]
    threading.Timer(0.5, holder.release).start()
    assert turns.take(lambda: worked.append(1) or "did") == "did"
    live.join()
    assert worked == [1] and turns.waited_s >= 1, "it stood aside until nobody waited any more"

    def held():
        raise LeaseHeld("silver is being written by hourly (process 1)")

    with pytest.raises(TurnNeverCame, match="longer than a backfill waits"):
        turns.take(held)


def invoke(settings, *words, code=0):
    os.environ.update(ASSAY_LAKE=settings.lake, ASSAY_LANDING=settings.landing, ASSAY_HOME=str(settings.home))
    result = CliRunner().invoke(app, list(words))
    if isinstance(result.exception, ConfigurationFault):
        return str(result.exception)
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch):
    for name in ("ASSAY_LAKE", "ASSAY_LANDING", "ASSAY_HOME"):
        monkeypatch.setenv(name, "")


def test_the_commands_plan_show_and_cancel(settings, backfill, tmp_path):
    file = tmp_path / "landing/AWSLogs/111122223333/CloudTrail/eu-west-1/2024/06/01/f.json.gz"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x")
    page = invoke(settings, "plan", "--from", "2024-06-01", "--to", "2024-06-30")
    assert "| files to read | 1 |" in page and "not measured here yet" in page
    (planned,) = [row for row in json.loads(invoke(settings, "status", "--json")) if row["backfill_id"] != backfill]
    assert (planned["state"], planned["left"]) == ("planned", 1)
    name = planned["backfill_id"]
    assert "Nobody is here to approve" in invoke(settings, "run", name)
    assert "Nobody is here" not in invoke(settings, "run", name, "--dry-run")
    assert "Name a planned backfill, or say --from" in invoke(settings, "run")
    assert "is not the id of a backfill" in invoke(settings, "status", "../../etc")
    assert "1 of 1 chunks of" in invoke(settings, "cancel", name)
    assert json.loads(invoke(settings, "status", name, "--json"))["state"] == "cancelled"


def test_what_silver_has_yet_to_read_counts_when_a_driver_is_tuned(tmp_path):
    """A backfill's records in bronze make a live run that finds them one with much input, however small its own file is."""
    small = small_lake(tmp_path)
    consumed(small, 5)  # bronze has read all of the ledger; silver nothing of bronze
    assert is_small(small, PIPELINE)
    assert not is_small(small.model_copy(update={"small_mb": 0}), PIPELINE)
