"""`assay files`: the ledger, and another reading of what failed."""

import pytest

from spark_jobs.io.ops import Ops
from spark_jobs.spec.tables import BOOKS, FILE_OUTCOMES, FILES
from tests.builders.assay_command import assay, assay_json
from tests.builders.ops_rows import BATCH, BRONZE, books_row, file_id, file_row, outcome_row, small_lake, small_settings, write


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return small_lake(tmp_path_factory.mktemp("lake"))


def states(settings, *words):
    return {row["path"].rsplit("/", 1)[-1]: row["state"] for row in assay_json(settings, "files", *words)["files"]}


def test_every_file_is_shown_with_its_state(lake):
    assert states(lake) == {"a.gz": "ok", "b.gz": "failed", "c.txt": "ignored", "d.gz": "pending"}


def test_failed_and_pending_files_come_first(lake):
    assert list(states(lake))[:2] == ["b.gz", "d.gz"]


def test_a_file_shows_its_records_hash_and_reason(lake):
    by_state = {row["state"]: row for row in assay_json(lake, "files")["files"]}
    assert (by_state["ok"]["records"], by_state["ok"]["sha256"]) == (4, "ab" * 32)
    assert by_state["failed"]["reason"] == "The gzip stream has no end."
    assert by_state["ignored"]["reason"] == "its name is not a log's"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--state", "failed"), {"b.gz"}),
        (("--path", "a.g"), {"a.gz"}),
        (("--path", "*.txt"), {"c.txt"}),
        (("--date", "2024-05-01"), {"a.gz", "b.gz", "c.txt", "d.gz"}),
        (("--date", "2024-05-02"), set()),
        (("--run-id", "later"), {"d.gz"}),
        (("--pipeline", "other"), set()),
        (("--limit", "1"), {"b.gz"}),
    ],
)
def test_filters_narrow_the_list(lake, words, names):
    assert set(states(lake, *words)) == names


def test_counts_are_of_all_files_whatever_the_limit(lake):
    counts = {row["state"]: row["files"] for row in assay_json(lake, "files", "--limit", "1")["counts"]}
    assert counts == {"ok": 1, "failed": 1, "ignored": 1, "pending": 1}


def test_a_file_whose_batch_was_stopped_is_not_called_read(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, FILES, file_row(settings, "a.gz"))
    write(settings, FILE_OUTCOMES, outcome_row(settings, "a.gz"))
    assert states(settings) == {"a.gz": "stopped"}
    write(settings, BOOKS, books_row(BRONZE))
    assert states(settings) == {"a.gz": "ok"}


def test_the_newest_attempt_of_a_file_counts(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, FILES, file_row(settings, "a.gz"), file_row(settings, "a.gz", attempt=2, admitted="retry"))
    write(settings, BOOKS, books_row(BRONZE))
    write(settings, FILE_OUTCOMES, outcome_row(settings, "a.gz", outcome="failed", rule="unreadable", reason="no"))
    assert states(settings) == {"a.gz": "pending"}
    write(settings, FILE_OUTCOMES, outcome_row(settings, "a.gz", attempt=2, batch_id=BATCH))
    assert states(settings) == {"a.gz": "ok"}


@pytest.mark.parametrize(("words", "said"), [(("--state", "lost"), "'lost' is not a state"), (("--date", "May"), "'May' is not a date")])
def test_a_wrong_filter_is_refused(lake, words, said):
    assert said in assay(lake, "files", *words, exit_code=2).stderr


def test_retry_enters_the_failed_file_once_more(tmp_path):
    settings = small_lake(tmp_path)
    assert "1 file will be read again by the next run" in assay(settings, "files", "retry", "b.gz").stdout
    rows = Ops(settings).read(FILES).to_pylist()
    again = [row for row in rows if row["attempt"] == 2]
    assert [(row["file_id"], row["state"], row["admitted"]) for row in again] == [(file_id("b.gz"), "listed", "retry")]
    assert again[0]["run_id"].startswith("retry__")
    assert states(settings)["b.gz"] == "pending"


def test_retry_of_all_failed_leaves_the_others_alone(tmp_path):
    settings = small_lake(tmp_path)
    found = assay_json(settings, "files", "retry", "--all-failed")
    assert (found["entered"], [path.rsplit("/", 1)[-1] for path in found["files"]]) == (1, ["b.gz"])
    assert assay_json(settings, "files", "retry", "--all-failed")["entered"] == 0, "it is pending now"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a.gz",), "there are 1 ok, which need no retry"),
        (("nosuch.gz",), "No file in the ledger matches 'nosuch.gz'"),
        ((), "Name a file"),
        (("b.gz", "--all-failed"), "Name a file"),
    ],
)
def test_retry_refuses_what_cannot_be_retried(lake, words, said):
    before = Ops(lake).read(FILES).num_rows
    assert said in assay(lake, "files", "retry", *words, exit_code=2).stderr
    assert Ops(lake).read(FILES).num_rows == before
