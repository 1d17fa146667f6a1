"""`assay where`: each record is found where it is, and where it stays is said."""

import pytest

from spark_jobs.spec.tables import BOOKS, FILE_OUTCOMES, FILES, VERDICTS
from tests.builders.assay_command import assay, assay_json
from tests.builders.ops_rows import (
    ACTIVITY,
    BRONZE,
    DENIED,
    SILVER,
    books_row,
    failed_verdict,
    file_id,
    file_row,
    gold_row,
    outcome_row,
    record,
    small_lake,
    small_settings,
    write,
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return small_lake(tmp_path_factory.mktemp("lake"))


def rid(name, index):
    return f"{file_id(name)}:{index}"


def way(settings, name, index, *words):
    return assay_json(settings, "where", rid(name, index), *words)[0]


def places(way):
    return [(step["table"], step["state"]) for step in way["steps"]]


def test_a_published_record_is_followed_into_the_windows_that_count_it(lake):
    found = way(lake, "a.gz", 0)
    assert found["ends"] == "published"
    assert places(found)[:4] == [
        ("_ops.files", "found"),
        ("_ops.file_outcomes", "found"),
        ("bronze.cloudtrail_records", "found"),
        ("silver.cloudtrail_events", "found"),
    ]
    assert ("gold.cloudtrail_activity_1h", "counted") in places(found)
    assert ("gold.cloudtrail_denied_15m", "not counted") in places(found)


def test_an_event_id_finds_every_delivery_the_kept_one_first(lake):
    found = assay_json(lake, "where", "event-0")
    assert [(one["rid"], one["ends"]) for one in found] == [(rid("a.gz", 0), "published"), (rid("a.gz", 2), "duplicate")]


def test_a_duplicate_names_the_record_that_was_kept(lake):
    assert rid("a.gz", 0) in way(lake, "a.gz", 2)["sentence"]


def test_a_quarantined_record_says_its_rule(lake):
    found = way(lake, "a.gz", 3)
    assert found["ends"] == "quarantined"
    assert "event_time_in_future" in found["sentence"]


def test_a_quarantined_event_is_found_by_the_id_in_its_text(lake):
    assert [one["rid"] for one in assay_json(lake, "where", "event-3")] == [rid("a.gz", 3)]


def test_the_record_itself_is_shown_only_when_asked(lake):
    assert "mallory" not in assay(lake, "where", rid("a.gz", 0)).stdout
    assert "mallory" not in assay(lake, "where", rid("a.gz", 0), "--json").stdout
    assert "mallory" in assay(lake, "where", rid("a.gz", 0), "--raw").stdout


def test_a_record_of_a_failed_file_says_why_it_is_not_there(lake):
    found = way(lake, "b.gz", 0)
    assert found["ends"] == "failed"
    assert "The gzip stream has no end." in found["sentence"]


@pytest.mark.parametrize(("name", "ends"), [("c.txt", "ignored"), ("d.gz", "waiting")])
def test_a_record_of_a_file_that_was_not_read_says_so(lake, name, ends):
    assert way(lake, name, 0)["ends"] == ends


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (f"{'a' * 32}:4", "there is no record 4"),
        (f"{'f' * 32}:0", "No file in the ledger"),
        ("event-77", "No event 'event-77'"),
        ("' OR 1=1 --", "No event"),
    ],
)
def test_a_record_that_does_not_exist_is_said(lake, record, said):
    assert said in assay(lake, "where", record, exit_code=2).stderr


def one_file(folder, *, silver_read=0):
    """A file of 4 records that bronze has read; silver has read nothing, unless told otherwise."""
    settings = small_settings(folder)
    write(settings, FILES, file_row(settings, "a.gz"))
    write(settings, FILE_OUTCOMES, outcome_row(settings, "a.gz"))
    write(settings, BRONZE, *[record(settings, "a.gz", index, BRONZE) for index in range(4)])
    write(settings, BOOKS, books_row(BRONZE, target_version=0))
    if silver_read:
        write(settings, BOOKS, books_row(SILVER, read=silver_read, written=silver_read, source_version=0))
    return settings


def test_a_record_that_silver_has_not_read_waits(tmp_path):
    assert way(one_file(tmp_path), "a.gz", 0)["ends"] == "waiting"


def test_a_record_that_is_nowhere_is_unaccounted_for_and_exit_code_5(tmp_path):
    settings = one_file(tmp_path, silver_read=4)
    result = assay(settings, "where", rid("a.gz", 0), exit_code=5)
    assert "A record is unaccounted for at silver.cloudtrail_events" in result.stderr


def test_a_record_of_a_held_batch_says_what_releases_it(tmp_path):
    settings = one_file(tmp_path, silver_read=4)
    write(settings, SILVER.side("held"), record(settings, "a.gz", 0, SILVER.side("held"), verdict_id="v"))
    found = way(settings, "a.gz", 0)
    assert found["ends"] == "held"
    assert "assay held show silver.cloudtrail_events v1-00000000" in found["sentence"]
    assert [one["ends"] for one in assay_json(settings, "where", "event-0")] == ["held"]


def test_a_record_behind_a_stopped_batch_says_which(tmp_path):
    settings = one_file(tmp_path)
    write(settings, VERDICTS, failed_verdict(SILVER, "stop"))
    found = way(settings, "a.gz", 0)
    assert found["ends"] == "waiting"
    assert "assay held show silver.cloudtrail_events v1-00000000" in found["sentence"]


def test_bytes_that_are_no_text_stay_in_the_bronze_quarantine(tmp_path):
    settings = one_file(tmp_path)
    write(settings, FILES, file_row(settings, "e.gz"))
    write(settings, FILE_OUTCOMES, outcome_row(settings, "e.gz", quarantined=1))
    bad = {"rule": "invalid_utf8", "reason": "Byte 3 is not UTF-8.", "raw_bytes": b"\xff\xfe"}
    write(settings, BRONZE.side("quarantine"), record(settings, "e.gz", 1, BRONZE.side("quarantine"), **bad))
    found = way(settings, "e.gz", 1, "--raw")
    assert (found["ends"], found["steps"][-1]["facts"]["raw"]) == ("quarantined", "\\xff\\xfe")


def test_each_sliding_window_that_counts_a_denied_event_is_named(tmp_path):
    settings = one_file(tmp_path, silver_read=4)
    event = record(settings, "a.gz", 0, error_code="AccessDenied")  # at 12:30:00, in the windows that start 12:20, 12:25 and 12:30
    write(settings, SILVER, event)
    starts = [event["event_time"].replace(minute=minute) for minute in (15, 20, 25, 30, 35)]
    write(settings, DENIED, *[gold_row(DENIED, start) for start in starts], gold_row(DENIED, starts[1], principal_arn="somebody else"))
    write(settings, ACTIVITY, gold_row())
    steps = [step for step in way(settings, "a.gz", 0)["steps"] if step["table"] == "gold.cloudtrail_denied_15m"]
    assert [(step["state"], step["facts"]["window_start"]) for step in steps] == [
        ("counted", f"2024-05-01T12:{m}:00Z") for m in (20, 25, 30)
    ]


def test_a_window_that_is_not_computed_yet_is_said(tmp_path):
    settings = one_file(tmp_path, silver_read=4)
    write(settings, SILVER, record(settings, "a.gz", 0))
    found = way(settings, "a.gz", 0)
    assert found["ends"] == "published"
    assert ("gold.cloudtrail_activity_1h", "waiting") in places(found)
    assert "after the next run" in found["sentence"]
