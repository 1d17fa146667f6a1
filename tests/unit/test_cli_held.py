"""`assay held`: which batches wait, why, and what a person decides about them."""

import pytest

from spark_jobs.io.ops import Ops
from spark_jobs.io.work import undone_decisions
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.tables import BOOKS, DECISIONS, VERDICTS
from tests.builders.assay_command import assay, assay_json
from tests.builders.ops_rows import ACTIVITY, BATCH, NOW, SILVER, books_row, failed_verdict, record, small_settings, verdict_row, write

TABLE = "silver.cloudtrail_events"


def held_lake(folder):
    settings = small_settings(folder)
    write(settings, VERDICTS, failed_verdict(outcome="hold"), verdict_row(outcome="hold", sentence="held"))
    write(settings, BOOKS, books_row(read=4, written=0, held=4, outcome="hold"))
    write(settings, SILVER.side("held"), record(settings, "a.gz", 0, SILVER.side("held"), verdict_id="v"))
    return settings


def stopped_lake(folder, table=SILVER):
    settings = small_settings(folder)
    write(settings, VERDICTS, failed_verdict(table, outcome="stop"))
    return settings


def decisions(settings):
    return [(row["table"], row["batch_id"], row["decision"], row["who"], row["note"]) for row in Ops(settings).read(DECISIONS).to_pylist()]


def test_a_held_batch_is_listed_with_its_rows_and_verdict(tmp_path):
    row = assay_json(held_lake(tmp_path), "held", "list")[0]
    assert (row["table"], row["batch_id"], row["state"], row["rows"]) == (TABLE, BATCH, "held", 4)


def test_a_stopped_batch_is_listed(tmp_path):
    row = assay_json(stopped_lake(tmp_path), "held", "list")[0]
    assert (row["batch_id"], row["state"]) == (BATCH, "stopped")
    assert "account_id is 12 digits" in row["sentence"]


def test_a_stopped_batch_that_passed_later_no_longer_waits(tmp_path):
    settings = stopped_lake(tmp_path)
    write(settings, BOOKS, books_row())
    assert assay_json(settings, "held", "list") == []


def test_a_batch_that_passed_never_waits(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, VERDICTS, verdict_row())
    write(settings, BOOKS, books_row())
    assert assay_json(settings, "held", "list") == []


def test_show_names_the_expectations_that_failed_and_what_follows(tmp_path):
    printed = assay(held_lake(tmp_path), "held", "show", TABLE, BATCH).stdout
    assert "expect_column_values_to_match_regex" in printed
    assert "12****89" in printed
    assert "event_id=event-0" in printed
    assert "the next run publishes its rows" in printed


@pytest.mark.parametrize("decision", ["release", "reject"])
@pytest.mark.parametrize("lake", [held_lake, stopped_lake])
def test_a_decision_is_recorded_where_the_jobs_look_for_it(tmp_path, lake, decision):
    settings = lake(tmp_path)
    printed = assay(settings, "held", decision, TABLE, BATCH, "--who", "ann", "--note", "checked by hand").stdout
    assert "the next run" in printed
    assert decisions(settings) == [(TABLE, BATCH, decision, "ann", "checked by hand")]
    undone = undone_decisions(settings, load_pipeline("cloudtrail"))
    assert [(row["table"], row["batch_id"], row["decision"]) for row in undone] == [(TABLE, BATCH, decision)]
    assert assay_json(settings, "held", "list")[0]["state"] == {"release": "released", "reject": "rejected"}[decision]


def test_the_login_name_stands_where_nobody_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "login-name")
    settings = held_lake(tmp_path)
    assay(settings, "held", "release", TABLE, BATCH)
    assert decisions(settings)[0][3] == "login-name"


def test_a_decision_is_final(tmp_path):
    settings = held_lake(tmp_path)
    assay(settings, "held", "release", TABLE, BATCH, "--who", "ann")
    said = assay(settings, "held", "reject", TABLE, BATCH, exit_code=2).stderr
    assert "already decided by ann: released" in said
    assert len(decisions(settings)) == 1


def test_a_decision_that_was_carried_out_leaves_the_list(tmp_path):
    settings = held_lake(tmp_path)
    assay(settings, "held", "release", TABLE, BATCH)
    write(settings, BOOKS, books_row(batch_id=f"{BATCH}.release", decision="release", run_id="next"))
    assert assay_json(settings, "held", "list") == []
    assert assay_json(settings, "held", "list", "--all")[0]["state"] == "done (release)"
    assay(settings, "held", "release", TABLE, BATCH, exit_code=2)


def test_a_gold_batch_cannot_be_rejected(tmp_path):
    settings = stopped_lake(tmp_path, ACTIVITY)
    assert "recomputed from silver" in assay(settings, "held", "reject", str(ACTIVITY), BATCH, exit_code=2).stderr
    assay(settings, "held", "release", str(ACTIVITY), BATCH)
    assert len(decisions(settings)) == 1


@pytest.mark.parametrize(
    ("table", "batch", "said"),
    [
        ("silver.cloudtrail_event", BATCH, "did you mean silver.cloudtrail_events"),
        (TABLE, "v1-00000009", f"waiting: {BATCH}"),
        ("bronze.cloudtrail_records", BATCH, "none of its batches waits"),
    ],
)
def test_a_batch_that_does_not_wait_cannot_be_decided(tmp_path, table, batch, said):
    settings = held_lake(tmp_path)
    assert said in assay(settings, "held", "release", table, batch, exit_code=2).stderr
    assert decisions(settings) == []


def test_the_newest_verdict_of_a_batch_counts(tmp_path):
    settings = stopped_lake(tmp_path)
    later = NOW.replace(hour=11)
    write(settings, VERDICTS, failed_verdict(outcome="hold", evaluated_at=later, run_id="later"))
    write(settings, BOOKS, books_row(read=4, written=0, held=4, outcome="hold", run_id="later"))
    assert [row["state"] for row in assay_json(settings, "held", "list")] == ["held"]
