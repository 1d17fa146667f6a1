"""The quarantine as groups of one cause: what is listed, what is masked, what a dismissal does and does not do."""

from datetime import UTC, datetime, timedelta

import pytest

from spark_jobs.jobs.report import _work as report_work
from spark_jobs.jobs.run import Run
from spark_jobs.report.quarantine_groups import growing_groups, growing_sentence
from spark_jobs.report.views import LakeViews
from spark_jobs.spec.fingerprints import fingerprint, shape, shape_sql
from spark_jobs.spec.pipeline import load_pipeline
from tests.builders.assay_command import assay, assay_json
from tests.builders.ops_rows import BRONZE, RUN, SILVER, record, small_lake, small_settings, write

TODAY = datetime.now(UTC).replace(microsecond=0)
QUARANTINE = SILVER.side("quarantine")
REASONS = [
    "The record is not UTF-8 text: invalid start byte (byte 17).",
    "eventTime 2099-01-01T00:00:00Z is more than 1 day after the record was taken in.",
    "$.requestParameters['a b'] is a string where an object belongs.",
    'rejected by ana: "why" 0f8fad5b-d9cd-469f-a165-70867728950e and it\'s 1,200.5',
    "The record holds \\ud800, half of a surrogate pair, which is no character.",
    "nothing varies",
    "",
]


def bad(settings, index, days_ago=0.0, reason="byte 17 of 'x' is wrong.", rule="wrong_type", name="a.gz"):
    row = record(settings, name, index, QUARANTINE, rule=rule, reason=reason)
    return row | {"_ingested_at": TODAY - timedelta(days=days_ago)}


@pytest.mark.parametrize("reason", REASONS)
def test_a_shape_is_the_same_in_python_and_in_sql(reason, tmp_path):
    found = LakeViews(small_settings(tmp_path)).rows(f"SELECT {shape_sql('$reason')} AS shape", {"reason": reason})[0]["shape"]
    assert found == shape(reason)
    assert not any(char in "0123456789" for char in found)


def test_records_of_one_cause_are_one_group_and_other_tables_or_rules_are_others(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, QUARANTINE, *[bad(settings, i, reason=f"byte {i} of '{i}x' is wrong.") for i in range(4)])
    write(settings, QUARANTINE, bad(settings, 5, rule="other"), bad(settings, 6, reason="Something else."))
    bytes_row = record(settings, "a.gz", 7, BRONZE.side("quarantine"), rule="invalid_utf8", reason="not text", raw_bytes=b"\xff")
    write(settings, BRONZE.side("quarantine"), bytes_row)
    found = {(group["table"], group["rule"], group["shape"]): group for group in assay_json(settings, "quarantine", "list")}
    assert {key: group["count"] for key, group in found.items()} == {
        (str(SILVER), "wrong_type", "byte ‹n› of ‹value› is wrong."): 4,
        (str(SILVER), "wrong_type", "Something else."): 1,
        (str(SILVER), "other", "byte ‹n› of ‹value› is wrong."): 1,
        (str(BRONZE), "invalid_utf8", "not text"): 1,
    }
    for (table, rule, form), group in found.items():
        assert group["fingerprint"] == fingerprint(table, rule, form)
    assert len({group["fingerprint"] for group in found.values()}) == 4
    only = assay_json(settings, "quarantine", "list", "--table", str(BRONZE))
    assert [group["rule"] for group in only] == ["invalid_utf8"]


def test_a_group_grows_when_a_day_brings_more_than_the_days_before(tmp_path):
    settings = small_settings(tmp_path)
    steady = [bad(settings, i, days_ago=i / 6, rule="steady") for i in range(60)]  # six a day for ten days
    sudden = [bad(settings, i, days_ago=0.5, rule="sudden") for i in range(9)]
    once = [bad(settings, i, days_ago=0.5, rule="few") for i in range(4)]
    before = [bad(settings, i, days_ago=3, rule="sudden", name="b.gz") for i in range(3)]
    write(settings, QUARANTINE, *steady, *sudden, *once, *before)
    views = LakeViews(settings)
    [growing] = growing_groups(views, TODAY)
    assert (growing["rule"], growing["last_24h"], growing["mean_per_day"]) == ("sudden", 9, 3 / 7)
    assert "sudden in silver.cloudtrail_events (9 in 24 h, 0.4 a day before)" in growing_sentence([growing])
    assert growing_sentence([]) == ""
    assert "QUARANTINE IS GROWING: sudden" in assay(settings, "status").stdout
    printed = assay(settings, "quarantine").stdout
    assert "QUARANTINE IS GROWING" in printed and "76 records in 3 groups" in printed


def test_the_report_of_a_run_says_that_a_group_grows(tmp_path):
    settings = small_lake(tmp_path)
    assert report_work(Run(settings, load_pipeline("cloudtrail"), RUN), None)["growing"] is None
    write(settings, QUARANTINE, *[bad(settings, i, rule="sudden") for i in range(5)])
    said = report_work(Run(settings, load_pipeline("cloudtrail"), RUN), None)
    assert "QUARANTINE IS GROWING: sudden" in said["sentence"] and said["report"]


def test_show_masks_the_records_and_names_their_files(tmp_path):
    settings = small_lake(tmp_path)
    [group] = assay_json(settings, "quarantine", "list")
    printed = assay(settings, "quarantine", "show", group["fingerprint"][:5]).stdout
    assert "mallory" not in printed and "xxxxxxx" in printed and "userName" in printed
    assert f"{settings.landing_root}/a.gz" in printed
    found = assay_json(settings, "quarantine", "show", group["fingerprint"])
    assert [row["rid"] for row in found["sample"]] == [f"{'a' * 32}:3"] and "mallory" not in str(found)
    assert [(row["file"], row["count"]) for row in found["files"]] == [(f"{settings.landing_root}/a.gz", 1)]


def test_a_dismissed_group_leaves_the_list_until_a_new_record_comes(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, QUARANTINE, bad(settings, 1, days_ago=2), bad(settings, 2, days_ago=1), bad(settings, 3, rule="other"))
    name = next(group["fingerprint"] for group in assay_json(settings, "quarantine", "list") if group["rule"] == "wrong_type")
    said = assay(settings, "quarantine", "dismiss", name, "--who", "ana", "--note", "known").stdout
    assert "2 records dismissed by ana; they stay in quarantine and in the books." in said
    assert [group["rule"] for group in assay_json(settings, "quarantine", "list")] == ["other"]
    closed = {group["rule"]: group for group in assay_json(settings, "quarantine", "list", "--all")}["wrong_type"]
    assert (closed["state"], closed["who"], closed["note"], closed["count"]) == ("dismissed", "ana", "known", 2)
    assert "already dismissed by ana" in assay(settings, "quarantine", "dismiss", name, exit_code=2).stderr
    assert len(LakeViews(settings).rows(f"SELECT * FROM {QUARANTINE}")) == 3
    write(settings, QUARANTINE, bad(settings, 4))
    again = {group["rule"]: group for group in assay_json(settings, "quarantine", "list")}["wrong_type"]
    assert (again["state"], again["count"], again["new_count"]) == ("open again", 3, 1)
    write(settings, QUARANTINE, bad(settings, 5, days_ago=3))  # taken in before the dismissal, quarantined after it
    assay(settings, "quarantine", "dismiss", name, "--who", "bo")
    assert [group["rule"] for group in assay_json(settings, "quarantine", "list")] == ["other"]


def test_wrong_names_are_told_in_a_sentence(tmp_path):
    settings = small_lake(tmp_path)
    said = assay(settings, "quarantine", "show", "zzz", exit_code=2).stderr
    assert "No quarantined record has the fingerprint 'zzz'. Known: " in said and "event_time_in_future" in said
    assert "has no quarantine" in assay(settings, "quarantine", "list", "--table", "gold.cloudtrail_denied_15m", exit_code=2).stderr
    refused = assay(settings, "quarantine", "replay", "--table", str(BRONZE), exit_code=2).stderr
    assert "deliver it again" in refused
    assert "The quarantine is empty" in assay(small_settings(tmp_path / "new"), "quarantine", "show", "a", exit_code=2).stderr
    assert "No group is open." in assay(small_settings(tmp_path / "new"), "quarantine", "list").stdout
