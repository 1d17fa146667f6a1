"""What a report says beside the batches: audit, whole tables, late changes, quarantine, backfills, maintenance."""

import json
import re
from datetime import timedelta

import pytest

from spark_jobs.report.facts import latest_run
from spark_jobs.report.views import LakeViews
from spark_jobs.report.write import write_report
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.tables import AMENDMENTS, AUDITS, BACKFILL_CHUNKS, BACKFILLS, BOOKS, MAINTENANCE, VERDICTS
from tests.builders.ops_rows import ACTIVITY, NOW, SILVER, books_row, record, small_lake, small_settings, verdict_row, write
from tests.builders.page import Page

CLOUDTRAIL = load_pipeline("cloudtrail")
DAILY = "scheduled__2024-05-02T01:30:00+00:00"
HOUR = timedelta(hours=1)


def report(settings, run_id=DAILY):
    done = write_report(settings, CLOUDTRAIL, run_id, NOW)
    assert done is not None
    return Page(done.page.read_text()), json.loads(done.page.with_name("report.json").read_text())


def audit_row(**changes):
    return {
        "audit_id": "a1", "pipeline": "cloudtrail", "table": str(ACTIVITY), "run_id": DAILY, "mode": "sample", "cells": 200,
        "cells_total": 1_234, "mismatched": 0, "silver_version": 7, "gold_version": 5, "is_equal": True, "mismatches": "[]",
        "sentence": f"{ACTIVITY}: 200 of 1,234 cells are equal.", "audited_at": NOW,
    } | changes  # fmt: skip


def whole_tables_row(**changes):
    return verdict_row(
        **{
            "layer": "tables", "batch_id": "tables-2024-05-01", "run_id": DAILY, "sentence": f"{SILVER} tables-2024-05-01: passed.",
            "expected": "no event_id occurs under two dates", "observed": "0 keys stand in more than one place",
        } | changes
    )  # fmt: skip


def maintenance_row(**changes):
    return {
        "pipeline": "cloudtrail", "table": str(SILVER), "action": "vacuum", "removed": 3, "bytes": 100, "kept_from_version": 2,
        "held_back_by": "the consumer siem", "sentence": f"{SILVER}: 3 files stay for the consumer siem, from version 2 on.",
        "run_id": DAILY, "done_at": NOW,
    } | changes  # fmt: skip


@pytest.fixture
def settings(tmp_path):
    return small_lake(tmp_path)


def test_a_daily_run_that_wrote_no_batch_has_a_report_of_what_it_did(settings):
    """And a run that did nothing still has none."""
    write(settings, AUDITS, audit_row())
    write(settings, VERDICTS, whole_tables_row())
    write(settings, MAINTENANCE, maintenance_row(), maintenance_row(table="", action="all", sentence="20 tables cared for: held back."))
    page, facts = report(settings)
    assert facts["outcome"]["state"] == "pass"
    assert facts["outcome"]["sentence"] == (
        "1 expectations held on whole tables. The audit found 200 cells of 1 gold tables equal to silver."
    )
    assert "20 tables cared for: held back." in page.text
    assert "3 files stay for the consumer siem, from version 2 on." in page.text
    assert "Files of 2024-05-01" in page.text and "no event_id occurs under two dates" in page.text
    assert "Equal 200 1,234 0 7" in page.text
    assert "Not reached" not in page.text and facts["flow"] == [], "no flow from landing to gold is drawn where nothing flowed"
    assert latest_run(LakeViews(settings), ["cloudtrail"]) is not None
    assert write_report(settings, CLOUDTRAIL, "another", NOW) is None


def test_a_cell_that_differs_is_the_first_thing_said(settings):
    cell = {"window_start": "2024-05-01T12:00:00Z", "account_id": "111122223333", "gold": 3, "silver": 2}
    said = f"{ACTIVITY}: 1 of 200 cells is not what silver says."
    write(
        settings, AUDITS, audit_row(is_equal=False, mismatched=1, mismatches=json.dumps([cell]), sentence=said), audit_row(table="gold.x")
    )
    page, facts = report(settings)
    assert page.banner == "unbalanced" and facts["outcome"]["word"] == "Gold is not what silver says"
    assert facts["outcome"]["sentence"] == said
    assert "111122223333" in page.text
    assert [audit["is_equal"] for audit in facts["audits"]] == [False, True]


@pytest.mark.parametrize(("outcome", "word"), [("stop", "Stopped"), ("warn", "Passed with a note")])
def test_a_suite_over_whole_tables_that_failed_is_said_and_is_no_stopped_batch(settings, outcome, word):
    failed = {"success": False, "severity": "critical" if outcome == "stop" else "warning", "sample": json.dumps(["ev***-0"])}
    write(
        settings,
        VERDICTS,
        whole_tables_row(outcome=outcome, sentence="Two dates.", **failed),
        whole_tables_row(column="x", outcome=outcome),
    )
    page, facts = report(settings)
    assert (facts["outcome"]["word"], facts["outcome"]["sentence"]) == (word, "Two dates.")
    assert "ev***-0" in page.text
    assert facts["tables"] == [] and facts["waiting"] == []


def test_late_changes_show_what_was_and_what_is(settings):
    late = {
        "pipeline": "cloudtrail", "table": str(ACTIVITY), "window_start": NOW - 30 * HOUR, "window_end": NOW - 29 * HOUR,
        "key": json.dumps({"account_id": "111122223333"}), "before": json.dumps({"event_count": 2, "error_count": 0}),
        "after": json.dumps({"event_count": 3, "error_count": 0}), "events": 1, "late_s": 29 * 3600, "brought_by": "live",
        "run_id": DAILY, "amended_at": NOW, "batch_id": "v1-00000001",
    }  # fmt: skip
    write(settings, AMENDMENTS, late, late | {"before": None, "key": json.dumps({"account_id": "444455556666"}), "late_s": None})
    page, facts = report(settings)
    assert "2 cells of windows that had settled changed in this run" in page.text
    assert facts["amendments"]["rows"][0]["changes"] == [{"name": "event_count", "before": 2, "after": 3}]
    assert "event count 2 → 3" in page.text and "event count new → 3" in page.text and "29 h" in page.text


def test_a_growing_group_is_a_note_whatever_the_gates_said(settings):
    side = SILVER.side("quarantine")
    rows = [record(settings, "a.gz", n, side, rule="bad_time", reason="no time", _ingested_at=NOW - HOUR) for n in range(10, 30)]
    write(settings, side, *rows)
    write(settings, BOOKS, books_row(run_id=DAILY))
    page, facts = report(settings)
    assert facts["quarantine"]["growing"] == 1
    assert facts["outcome"]["state"] == "warn" and "1 group of the quarantine is growing." in facts["outcome"]["sentence"]
    assert "bad_time" in page.text and "growing 20 20" in page.text


def test_backfills_under_way_show_their_chunks_and_old_ones_are_left_out(settings):
    one = {
        "backfill_id": "bf_0123456789ab", "pipeline": "cloudtrail", "what": "load", "state": "running", "from_date": NOW.date(),
        "to_date": NOW.date(), "chunks": 3, "files": 7, "predicted_s": 600.0, "who": "ann", "at": NOW,
    }  # fmt: skip
    write(settings, BACKFILLS, one | {"state": "planned", "at": NOW - HOUR}, one)
    write(settings, BACKFILLS, one | {"backfill_id": "bf_aaaaaaaaaaaa", "state": "done", "at": NOW - 48 * HOUR})
    chunk = {"backfill_id": "bf_0123456789ab", "pipeline": "cloudtrail", "at": NOW}
    for number, state in ((0, "done"), (1, "done"), (2, "claimed")):
        write(
            settings,
            BACKFILL_CHUNKS,
            chunk | {"chunk": number, "state": "planned", "at": NOW - HOUR},
            chunk | {"chunk": number, "state": state},
        )
    write(settings, BOOKS, books_row(run_id=DAILY))
    page, facts = report(settings)
    assert [row["backfill_id"] for row in facts["backfills"]] == ["bf_0123456789ab"]
    assert facts["backfills"][0]["state"] == "running" and "1 claimed, 2 done" in page.text and "predicted 10 min" in page.text


def test_no_value_of_these_becomes_markup_or_an_address(tmp_path):
    settings = small_settings(tmp_path)
    evil = '<script src="//x.test/a.js"></script><img src=x onerror=alert(1)>\u202e'
    write(settings, AUDITS, audit_row(sentence=evil, is_equal=False, mismatches=json.dumps([{evil: evil}])))
    write(settings, VERDICTS, whole_tables_row(sentence=evil, expected=evil, observed=evil, sample=json.dumps([evil]), success=False))
    write(settings, MAINTENANCE, maintenance_row(sentence=evil, held_back_by=evil))
    write(
        settings, AMENDMENTS,
        {
            "pipeline": "cloudtrail", "table": str(ACTIVITY), "window_start": NOW, "key": json.dumps({"a": evil}), "run_id": DAILY,
            "before": json.dumps({evil: evil}), "after": "not JSON", "brought_by": evil, "late_s": 1, "amended_at": NOW,
        },
    )  # fmt: skip
    write(
        settings, BACKFILLS,
        {"backfill_id": evil, "pipeline": "cloudtrail", "what": evil, "state": evil, "who": evil, "from_date": NOW.date(), "at": NOW},
    )  # fmt: skip
    page, _ = report(settings)
    assert not {"script", "img", "iframe", "form", "link"} & page.tags
    assert not [
        one
        for one in page.attributes
        if one[1].startswith("on") or (one[1] in ("src", "href") and one[2] not in ("report.json", "../../index.html"))
    ]
    assert "\u202e" not in page.text and re.search(r"alert\(1\)", page.text)
