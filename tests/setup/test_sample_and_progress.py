"""The sample's two deliveries, and what a run's screen is made of."""

import gzip
import json

import pytest

from spark_jobs.cli.dag_run import DagRunResult, _take, _take_notes, events_of
from spark_jobs.cli.sample import SAMPLE, deliver, deliveries
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.settings import load_settings


def test_the_sample_is_7_files_of_800_records_and_then_29_of_1292():
    found = [(len(files), sum(len(json.loads(gzip.decompress(file.read_bytes()))["Records"]) for file in files)) for files in deliveries()]
    assert found == [(7, 800), (29, 1292)]


def test_a_delivery_keeps_the_layout_and_lands_once(tmp_path):
    settings = load_settings(landing=str(tmp_path))
    first, rest = deliveries()
    assert deliver(settings, first) == 7
    assert deliver(settings, first) == 0
    assert deliver(settings, [*first, *rest]) == 29
    landed = {str(file.relative_to(tmp_path)): file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert landed == {str(file.relative_to(SAMPLE)): file.read_bytes() for file in [*first, *rest]}


def test_a_landing_folder_that_cannot_take_the_sample_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationFault, match="sample cannot be copied to"):
        deliver(load_settings(landing=str(tmp_path / "file")), deliveries()[0])


def event(task_id, state, *, at, error=None, number=1):
    return {"task_id": task_id, "state": state, "at": at, "error": error, "try": number, "run_id": "r", "dag_id": "d"}


def test_each_try_of_a_task_has_its_own_state_and_time():
    result = DagRunResult()
    _take(result, [event("discover", "running", at=10.0), event("discover", "retry", at=12.5, error="no network")])
    _take(result, [event("discover", "running", at=30.0, number=2), event("discover", "success", at=31.0, number=2)])
    _take(result, [event("gate_bronze", "running", at=32.0), event("gate_bronze", "failed", at=33.0, error="not unique")])
    assert [(t.task_id, t.state, t.seconds) for t in result.tasks.values()] == [
        ("discover", "retry", 2.5),
        ("discover", "success", 1.0),
        ("gate_bronze", "failed", 1.0),
    ]
    assert result.failure == "not unique"
    assert result.run_id == "r"


def test_a_jobs_newest_line_is_the_note_of_the_task_it_belongs_to():
    result = DagRunResult()
    heading = "2026-01-01T00:00:00Z [info     ] [DAG TEST] starting task_id={} map_index=-1 [airflow.sdk.definitions.dag] loc=dag.py:1501\n"
    line = "2026-01-01T00:00:00Z [info     ] 12:00:0{} {}   [airflow.task.hooks.x.SparkSubmitHook] loc=spark_submit.py:965\n"
    said = [heading.format("build_silver"), line.format(1, "10 rows"), "noise\n", line.format(2, "20 rows"), heading.format("gate_silver")]
    _take_notes(result, "".join(said).encode())
    _take_notes(result, line.format(3, "passed").encode())
    assert result.notes == {"build_silver": "20 rows", "gate_silver": "passed"}


def test_events_are_read_once_and_only_when_their_line_is_whole(tmp_path):
    file = tmp_path / "events"
    events = events_of(file)
    assert next(events) == []
    file.write_text('{"a": 1}\n{"b"')
    assert next(events) == [{"a": 1}]
    with file.open("a") as opened:
        opened.write(": 2}\n")
    assert next(events) == [{"b": 2}]
    assert next(events) == []
