"""`assay late`: changes of settled windows, newest first, and how late events come."""

import json
from datetime import timedelta

import pytest

from spark_jobs.cli.late import seconds_in_words
from spark_jobs.spec.tables import AMENDMENTS, FILES
from tests.builders.assay_command import assay, assay_json
from tests.builders.ops_rows import ACTIVITY, DENIED, NOW, SILVER, file_row, record, small_settings, write

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def amendment(**changes):
    start = NOW - 30 * HOUR
    return {
        "pipeline": "cloudtrail", "table": str(ACTIVITY), "window_start": start, "window_end": start + HOUR,
        "key": json.dumps({"account_id": "111122223333"}), "before": json.dumps({"event_count": 2, "error_count": 0}),
        "after": json.dumps({"event_count": 3, "error_count": 0}), "events": 1, "late_s": 29 * 3600 + 120,
        "files": json.dumps(["/landing/late\u001b.gz", "/landing/b.gz"]), "brought_by": "live", "silver_version": 4,
        "batch_id": "v1-00000001", "run_id": "r", "amended_at": NOW,
    } | changes  # fmt: skip


@pytest.fixture
def settings(tmp_path):
    return small_settings(tmp_path)


def test_changes_are_shown_newest_first_with_what_was_and_what_is(settings):
    assert "No window has changed" in assay(settings, "late").stdout
    new_row = amendment(table=str(DENIED), before=None, after=json.dumps({"denied_count": 1}), amended_at=NOW + HOUR)
    gone = amendment(after=None, events=0, late_s=None, files="[]", amended_at=NOW - HOUR)
    write(settings, AMENDMENTS, gone, amendment(), new_row)
    rows = assay_json(settings, "late")
    assert [row["table"] for row in rows] == [str(DENIED), str(ACTIVITY), str(ACTIVITY)]
    assert rows[1]["before"] == {"event_count": 2, "error_count": 0}
    assert rows[1]["files"] == ["/landing/late\u001b.gz", "/landing/b.gz"]
    assert (rows[2]["after"], rows[2]["late_s"]) == (None, None)
    shown = " ".join(assay(settings, "late").stdout.split())
    for part in ("(no row) → denied_count 1", "event_count 2 → 3", "1 d 5 h", "and 1 more"):
        assert part in shown
    assert "\u001b" not in shown
    assert [row["table"] for row in assay_json(settings, "late", "--table", str(ACTIVITY))] == [str(ACTIVITY)] * 2
    assert len(assay_json(settings, "late", "--since", f"{NOW:%Y-%m-%dT%H:%M}")) == 2
    assert len(assay_json(settings, "late", "--limit", "1")) == 1


def test_a_wrong_table_or_time_is_one_sentence(settings):
    assert "There is no gold table gold.x. Known: gold.cloudtrail_" in assay(settings, "late", "--table", "gold.x", exit_code=2).stderr
    assert "is not a time" in assay(settings, "late", "--since", "yesterday", exit_code=2).stderr


def test_the_distribution_counts_what_came_live_and_names_the_bounds(settings):
    """1,000 live events of one account: 985 a minute late, 14 two hours, 1 a day; 20 of another; history is left out unless asked for."""
    write(settings, FILES, file_row(settings, "a.gz"), file_row(settings, "b.gz", admitted="backfill x"))
    write(settings, FILES, file_row(settings, "a.gz", admitted="retry", attempt=2))
    at = NOW.replace(minute=2, second=30)  # the next 5 minutes' window ends 2.5 minutes after it
    late = [MINUTE] * 985 + [2 * HOUR] * 14 + [24 * HOUR]
    rows = [record(settings, "a.gz", 1, event_time=at, _ingested_at=at + one) for one in late]
    rows += [record(settings, "a.gz", 1, event_time=at, _ingested_at=at + 5 * SECOND, account_id="444455556666")] * 20
    rows += [record(settings, "b.gz", 1, event_time=at, _ingested_at=at + 10_000 * HOUR)] * 7
    write(settings, SILVER, *rows)
    first, second, everyone = assay_json(settings, "late", "distribution")["cloudtrail"]
    assert first | {"declared_s": 0} == {
        "account_id": "111122223333", "aws_region": "us-east-1", "events": 1000, "p50_s": 60, "p95_s": 60, "p99_s": 7200, "p999_s": 7200,
        "max_s": 86_400, "bound_99_s": 7050, "bound_999_s": 7050, "declared_s": 0,
    }  # fmt: skip
    assert (second["account_id"], second["events"], second["p999_s"], second["bound_999_s"]) == ("444455556666", 20, 5, 0)
    assert (everyone["account_id"], everyone["events"], everyone["declared_s"]) == (None, 1020, 3600)
    said = " ".join(assay(settings, "late", "distribution").stdout.split())
    assert "A lateness of 1 h 57 min would have covered 99 % of the events" in said
    assert "Declared: 1 h, which does not cover 99.9 %." in said
    with_history = assay_json(settings, "late", "distribution", "--all")["cloudtrail"]
    assert (with_history[0]["events"], with_history[0]["max_s"]) == (1007, 36_000_000)


def test_without_events_the_distribution_says_so(settings):
    assert "no event has come live yet" in assay(settings, "late", "distribution").stdout


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, ""), (0, "0 s"), (59, "59 s"), (60, "1 min"), (3_725, "1 h 2 min"), (86_400 * 29 + 4 * 3600, "29 d 4 h"), (7050, "1 h 57 min")],
)
def test_seconds_are_told_in_two_units(seconds, words):
    assert seconds_in_words(seconds) == words
