"""The gate command: what the task of a layer says and how it ends, from the records of one run."""

import json
import subprocess
import sys

import pytest

from spark_jobs.jobs.gate import gate
from spark_jobs.jobs.run import Run
from spark_jobs.report.batches import waiting_batches
from spark_jobs.report.views import LakeViews
from spark_jobs.spec.errors import BooksUnbalanced
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.tables import BOOKS, VERDICTS
from tests.builders.ops_rows import (
    ACTIVITY,
    BRONZE,
    DENIED,
    NOW,
    RUN,
    SILVER,
    books_row,
    environment,
    failed_verdict,
    small_settings,
    verdict_row,
    write,
)

NEXT = "v1-00000001"


@pytest.fixture
def settings(tmp_path):
    return small_settings(tmp_path)


def judged(settings, layer="silver", run_id=RUN, **changes):
    return gate(Run(settings.model_copy(update=changes), load_pipeline("cloudtrail"), run_id), layer)


def test_a_run_that_wrote_no_batch_of_the_layer_is_none(settings):
    write(settings, VERDICTS, verdict_row(BRONZE), verdict_row(SILVER, run_id="another"))
    write(settings, BOOKS, books_row(BRONZE), books_row(SILVER, run_id="another"))
    assert judged(settings)["outcome"] == "none"
    assert judged(settings)["tables"] == []


def test_a_batch_that_passed_is_pass_with_the_table_it_was_published_to(settings):
    write(settings, VERDICTS, verdict_row())
    write(settings, BOOKS, books_row())
    assert judged(settings) == {
        "outcome": "pass",
        "sentence": "silver passed: 1 batch, 4 rows written.",
        "tables": ["silver.cloudtrail_events"],
    }


@pytest.mark.parametrize("outcome", ["pass", "warn", "stop"])
def test_the_suites_over_whole_tables_have_verdicts_and_no_books(settings, outcome):
    """And they are no batch: the gate of the layer does not look at them, and a stopped one waits for nobody's decision."""
    assert judged(settings, "tables")["outcome"] == "none"
    whole = {"layer": "tables", "batch_id": "tables-2024-05-01", "sentence": f"silver.cloudtrail_events: {outcome}."}
    write(settings, VERDICTS, verdict_row(outcome=outcome, **whole), verdict_row(batch_id=NEXT, sentence="of a batch"))
    write(settings, BOOKS, books_row(batch_id=NEXT))
    assert judged(settings, "tables") == {"outcome": outcome, "sentence": whole["sentence"], "tables": []}
    assert judged(settings)["outcome"] == "pass"
    assert waiting_batches(LakeViews(settings)) == []


@pytest.mark.parametrize("outcome", ["warn", "hold", "stop"])
def test_the_strictest_outcome_of_the_run_counts(settings, outcome):
    write(settings, VERDICTS, verdict_row(), failed_verdict(outcome=outcome, batch_id=NEXT))
    write(settings, BOOKS, books_row())
    if outcome != "stop":
        write(settings, BOOKS, books_row(batch_id=NEXT, outcome=outcome))
    found = judged(settings)
    assert found["outcome"] == outcome
    assert "account_id is 12 digits" in found["sentence"]


def test_all_gold_tables_are_judged_together(settings):
    write(settings, VERDICTS, verdict_row(ACTIVITY), failed_verdict(DENIED, "stop"))
    write(settings, BOOKS, books_row(ACTIVITY))
    found = judged(settings, "gold")
    assert (found["outcome"], found["tables"]) == ("stop", ["gold.cloudtrail_activity_1h"])


def test_a_retried_task_is_judged_by_its_last_attempt(settings):
    write(settings, VERDICTS, failed_verdict(outcome="stop"), verdict_row(evaluated_at=NOW.replace(hour=11)))
    write(settings, BOOKS, books_row())
    assert judged(settings)["outcome"] == "pass"


def test_rows_without_a_verdict_are_stopped(settings):
    write(settings, BOOKS, books_row())
    found = judged(settings)
    assert found["outcome"] == "stop"
    assert "4 rows were written without a verdict" in found["sentence"]


def test_with_the_gates_off_no_verdict_is_asked_for(settings):
    write(settings, BOOKS, books_row())
    assert judged(settings, gates=False)["outcome"] == "pass"


def test_a_batch_that_was_judged_but_not_written_is_stopped(settings):
    write(settings, VERDICTS, verdict_row())
    found = judged(settings)
    assert found["outcome"] == "stop"
    assert "has no books" in found["sentence"]


def test_a_batch_that_a_person_released_is_green_with_a_note(settings):
    write(settings, VERDICTS, failed_verdict(outcome="stop"))
    write(settings, BOOKS, books_row(outcome="stop", decision="release"))
    found = judged(settings)
    assert found["outcome"] == "warn"
    assert "in spite of its verdict" in found["sentence"]


def test_unbalanced_books_end_the_gate(settings):
    write(settings, VERDICTS, verdict_row())
    write(settings, BOOKS, books_row(read=4, written=3))
    with pytest.raises(BooksUnbalanced, match="4 read ≠ 3 written"):
        judged(settings)


@pytest.mark.parametrize(("outcome", "exit_code"), [("pass", 0), ("warn", 0), ("hold", 0), ("stop", 6)])
def test_the_command_ends_with_the_outcome_and_prints_it_last(settings, outcome, exit_code):
    write(settings, VERDICTS, verdict_row() if outcome == "pass" else failed_verdict(outcome=outcome))
    if outcome != "stop":
        write(settings, BOOKS, books_row(outcome=outcome))
    command = [sys.executable, "-m", "spark_jobs.jobs.gate", "--pipeline", "cloudtrail", "--layer", "silver", "--run-id", RUN]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(settings) | {"PATH": "/nonexistent"})
    assert done.returncode == exit_code, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["outcome"] == outcome
    assert said["sentence"] in done.stderr
