"""The progress writer never keeps a batch waiting, and loses nothing that can still be written."""

import json
import threading
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from spark_jobs.io.backlog import Backlog
from spark_jobs.io.progress_store import ProgressStore
from spark_jobs.io.work import silver_checkpoint
from spark_jobs.jobs import progress as progress_module
from spark_jobs.jobs import progress_writer
from spark_jobs.jobs.progress_rows import Watched
from spark_jobs.jobs.progress_writer import ProgressWriter
from spark_jobs.jobs.run import Run
from spark_jobs.spec.pipeline import load_pipeline
from tests.builders.ops_rows import books_row, small_settings

BATCHES = 40


@pytest.fixture
def run(tmp_path):
    return Run(small_settings(tmp_path), load_pipeline("cloudtrail"), "r")


def booked(number):
    now = datetime.now(UTC)
    return books_row(batch_id=f"daily-{number:08d}", started_at=now, finished_at=now)


def test_a_disk_that_hangs_keeps_no_batch_waiting_and_what_is_lost_is_said(run, monkeypatch, capsys):
    hangs, began = threading.Event(), threading.Event()
    monkeypatch.setattr(ProgressStore, "append", lambda *_: (began.set(), hangs.wait()))
    monkeypatch.setattr(progress_writer, "MOST_BOOKED", 0)
    monkeypatch.setattr(progress_writer, "END_WITHIN_S", 0.5)
    writer = ProgressWriter(run, list)
    writer.open()
    writer.put("booked", None, booked(0))
    assert began.wait(60)
    for number in range(progress_writer.MOST_WAITING + BATCHES):  # would wait for ever if it waited for the disk
        writer.put("booked", None, booked(number))
    writer.close()
    hangs.set()
    assert f"The progress of {BATCHES + 1} batches was not kept; their books are." in capsys.readouterr().err


def test_rows_that_a_disk_refused_are_written_when_it_takes_them_again(run, monkeypatch, capsys):
    refusals = iter([OSError(28, "No space left on device")] * 3)
    whole = ProgressStore.append

    def append(store, rows):
        if rows and (refused := next(refusals, None)):
            raise refused
        whole(store, rows)

    monkeypatch.setattr(ProgressStore, "append", append)
    monkeypatch.setattr(progress_writer, "MOST_BOOKED", 0)
    monkeypatch.setattr(progress_writer, "GATHER_S", 0.05)
    writer = ProgressWriter(run, list)
    writer.open()
    for number in range(BATCHES):
        writer.put("booked", None, booked(number))
        threading.Event().wait(0.02)
    writer.close()
    rows = ProgressStore(run.settings).since(datetime(2020, 1, 1, tzinfo=UTC)).to_pylist()
    assert sorted(row["batch_id"] for row in rows) == [f"daily-{number:08d}" for number in range(BATCHES)]
    said = capsys.readouterr().err
    assert said.count("cannot be written; it is tried again") == 1
    assert "was not kept" not in said


def test_batches_that_were_not_heard_of_by_a_querys_end_are_asked_for(run, monkeypatch):
    monkeypatch.setattr(progress_module, "HEARD_WITHIN_S", 0)
    silver = run.pipeline.silver_table
    checkpoint = silver_checkpoint(run.settings, run.pipeline)
    progress = run.progress
    progress._starting[str(silver)] = Watched(str(silver), checkpoint, Backlog(run.settings, run.pipeline, checkpoint.source))
    progress._writer.open()
    progress.on_started("11-22", str(silver))
    progress.on_progress(said("11-22", 0))
    progress.on_progress(said("of another query", 7))
    query = SimpleNamespace(runId="11-22", recentProgress=[SimpleNamespace(json=said("11-22", number)) for number in (0, 1, 2)])
    progress.ended(query)
    run.close()
    rows = ProgressStore(run.settings).since(datetime(2020, 1, 1, tzinfo=UTC)).to_pylist()
    assert [row["batch_id"] for row in rows] == ["v1-00000000", "v1-00000001", "v1-00000002"]
    assert rows[0]["input_rows_per_s"] is None


def said(query_run, number):
    phases = {"addBatch": 80, "triggerExecution": 100}
    at = f"2026-11-21T08:33:{number:02d}.802Z"
    return json.dumps({"runId": query_run, "timestamp": at, "batchId": number, "batchDuration": 100, "durationMs": phases, "sources": []})
