"""`assay status`: how far each table is, and what it has not consumed."""

import pytest

from spark_jobs.cli.status_words import bytes_in_words, minutes_in_words
from spark_jobs.spec.tables import BOOKS, FILE_OUTCOMES, VERDICTS
from tests.builders.assay_command import assay, assay_json
from tests.builders.ops_rows import BRONZE, NOW, SILVER, books_row, failed_verdict, outcome_row, record, small_lake, small_settings, write


def tables(settings):
    return {row["table"]: row for row in assay_json(settings, "status")["pipelines"][0]["tables"]}


def test_each_table_shows_rows_version_and_last_batch(tmp_path):
    found = tables(small_lake(tmp_path))
    silver = found["silver.cloudtrail_events"]
    assert (silver["rows"], silver["version"], silver["batch_id"], silver["is_balanced"]) == (2, 0, "v1-00000000", True)
    assert found["gold.cloudtrail_denied_15m"]["rows"] is None, "it was never written"


def test_bronze_lags_by_the_files_that_it_has_not_read(tmp_path):
    lag = tables(small_lake(tmp_path))["bronze.cloudtrail_records"]["lag"]
    assert (lag["files"], lag["bytes"]) == (1, 70)
    assert lag["minutes"] > 0


def test_silver_lags_by_what_bronze_committed_since(tmp_path):
    settings = small_lake(tmp_path)
    assert tables(settings)["silver.cloudtrail_events"]["lag"] == {"files": 0, "bytes": 0, "rows": 0, "minutes": 0}
    later = {
        "batch_id": "v1-00000001",
        "target_version": 1,
        "run_id": "later",
        "files_read": 3,
        "files_ok": 3,
        "finished_at": NOW.replace(day=1),
    }
    write(settings, BOOKS, books_row(BRONZE, read=9, written=9, **later))
    write(settings, FILE_OUTCOMES, outcome_row(settings, "e.gz", batch_id="v1-00000001", bytes=55))
    lag = tables(settings)["silver.cloudtrail_events"]["lag"]
    assert (lag["rows"], lag["files"], lag["bytes"]) == (9, 3, 55)
    assert lag["minutes"] > 24 * 60


def test_the_newest_gate_and_what_waits_are_shown(tmp_path):
    settings = small_lake(tmp_path)
    write(settings, VERDICTS, failed_verdict(SILVER, "stop", batch_id="v1-00000001"))
    silver = tables(settings)["silver.cloudtrail_events"]
    assert (silver["gate"]["outcome"], silver["waiting"]) == ("stop", ["v1-00000001 stopped"])
    assert "assay held" in assay(settings, "status").stdout


def test_unbalanced_books_are_not_overlooked(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, SILVER, record(settings, "a.gz", 0))
    write(settings, BOOKS, books_row(read=4, written=3))
    printed = assay(settings, "status").stdout
    assert "NOT BALANCED" in printed
    assert "BOOKS DO NOT BALANCE" in printed


@pytest.mark.parametrize(("count", "words"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_340_000, "1.3 MB"), (283_000_000, "283 MB")])
def test_bytes_read_well(count, words):
    assert bytes_in_words(count) == words


@pytest.mark.parametrize(("minutes", "words"), [(4, "4 min"), (61, "1 h 1 min"), (60 * 76, "3 d 4 h")])
def test_lengths_of_time_read_well(minutes, words):
    assert minutes_in_words(minutes) == words
