"""`assay books`: the equations are computed anew, and a record that is unaccounted for is exit code 5."""

import pytest

from spark_jobs.spec.tables import BOOKS
from tests.builders.assay_command import assay, assay_json
from tests.builders.ops_rows import BRONZE, SILVER, books_row, record, small_lake, small_settings, write


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return small_lake(tmp_path_factory.mktemp("lake"))


def test_balanced_books_say_so(lake):
    found = assay_json(lake, "books", "--count")
    assert found["is_balanced"]
    assert found["sentence"].startswith("Every record is accounted for: 5 batches balance, and 7 tables hold exactly")
    assert {row["table"]: row["rows"] for row in found["counted"]}["silver.cloudtrail_events_duplicates"] == 1


def test_a_batch_that_does_not_add_up_is_exit_code_5(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, BOOKS, books_row(read=4, written=3))
    result = assay(settings, "books", exit_code=5)
    assert "4 read ≠ 3 written" in result.stderr
    assert "4 read ≠ 3 written" in result.stdout


def test_the_balance_is_not_taken_from_the_row(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, BOOKS, books_row(read=4, written=3, is_balanced=True, equation="4 read = 4 written"))
    assert "4 read ≠ 3 written" in assay(settings, "books", exit_code=5).stderr


def test_files_are_part_of_the_balance(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, BOOKS, books_row(BRONZE, files_read=3, files_ok=1, files_failed=1))
    assert "3 files ≠ 1 ok + 1 failed" in assay(settings, "books", exit_code=5).stderr


def test_counting_finds_a_row_that_the_books_do_not_know(tmp_path):
    settings = small_lake(tmp_path)
    assay(settings, "books", "--count")
    write(settings, SILVER, record(settings, "a.gz", 9))
    assay(settings, "books")
    said = assay(settings, "books", "--count", exit_code=5).stderr
    assert "silver.cloudtrail_events holds 3 rows where its books say 2" in said


def test_a_held_batch_that_was_released_is_counted_once(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, BOOKS, books_row(read=4, written=0, held=4, outcome="hold"))
    assert assay_json(settings, "books")["totals"][0]["held"] == 4
    write(settings, BOOKS, books_row(read=4, written=3, duplicate=1, batch_id="v1-00000000.release", decision="release", run_id="next"))
    total = assay_json(settings, "books")["totals"][0]
    assert total["equation"] == "4 read = 3 written + 0 quarantined + 1 duplicate + 0 held"


def test_the_books_of_the_run_that_released_stand_for_themselves(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, BOOKS, books_row(read=4, written=0, held=4, outcome="hold"))
    write(settings, BOOKS, books_row(read=4, written=4, batch_id="v1-00000000.release", decision="release", run_id="next"))
    total = assay_json(settings, "books", "--run-id", "next")["totals"][0]
    assert total["equation"] == "4 read = 4 written + 0 quarantined + 0 duplicate + 0 held"


def test_the_list_can_be_narrowed_to_a_table(lake):
    assert {row["table"] for row in assay_json(lake, "books", "--table", "silver.cloudtrail_events")["batches"]} == {
        "silver.cloudtrail_events"
    }


def test_an_unknown_table_suggests_the_nearest(lake):
    said = assay(lake, "books", "--table", "silver.cloudtrail_event", exit_code=2).stderr
    assert "did you mean silver.cloudtrail_events" in said
