"""The vocabulary: names, triggers, windows, books, settings. No Spark."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.spec.books import Books
from spark_jobs.spec.errors import ConfigurationFault, UnknownName
from spark_jobs.spec.gates import GatePolicy
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import TableId
from spark_jobs.spec.triggers import Trigger
from spark_jobs.spec.windows import BUCKET_S, WindowSpec, ranges


@pytest.mark.parametrize("name", ["../escape", "Silver", "a-b", "", "a/b", "a" * 200])
def test_refuses_a_table_name_that_could_leave_the_lake(name):
    with pytest.raises(ConfigurationFault):
        TableId("silver", name)


def test_refuses_an_unknown_layer_and_a_name_without_one():
    with pytest.raises(ConfigurationFault):
        TableId.parse("platinum.events")
    with pytest.raises(UnknownName):
        TableId.parse("events")


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("once", {"availableNow": True}),
        ("every 10 seconds", {"processingTime": "10 seconds"}),
        ("Every  2 minutes", {"processingTime": "120 seconds"}),
        ("as fast as possible", {"processingTime": "0 seconds"}),
    ],
)
def test_reads_the_known_triggers(text, options):
    assert Trigger.parse(text).options() == options
    assert Trigger.parse(str(Trigger.parse(text))) == Trigger.parse(text)


@pytest.mark.parametrize(
    "text", ["", "sometimes", "every 0 seconds", "every -1 seconds", "continuous", "every 2 days", "every 90000 seconds"]
)
def test_refuses_an_unknown_or_impossible_trigger_before_spark_starts(text):
    with pytest.raises(ConfigurationFault):
        Trigger.parse(text)
    with pytest.raises(ConfigurationFault, match="ASSAY_TRIGGER"):
        load_settings(trigger=text)


def test_only_once_ends_by_itself():
    assert Trigger.parse("once").ends
    assert not Trigger.parse("every 10 seconds").ends


def test_an_instant_is_in_each_sliding_window_that_contains_it():
    sliding = WindowSpec(900, 300)
    assert list(sliding.starts_for(3600)) == [3000, 3300, 3600]
    assert sliding.windows_per_event == 3


@given(st.lists(st.integers(0, 10**6).map(lambda n: n * BUCKET_S), max_size=50), st.sampled_from([(3600, 3600), (900, 300), (86400, 3600)]))
def test_touched_windows_are_exactly_those_that_contain_a_touched_bucket(buckets, shape):
    spec = WindowSpec(*shape)
    expected = set()
    for bucket in buckets:
        start = bucket - bucket % spec.slide_s
        while start > bucket - spec.length_s:
            expected.add(start)
            start -= spec.slide_s
    assert spec.touched(buckets) == sorted(expected)


def test_a_window_that_does_not_divide_is_refused():
    with pytest.raises(ConfigurationFault):
        WindowSpec(1000, 300)


@given(st.sets(st.integers(0, 200)))
def test_ranges_cover_the_windows_and_nothing_else(numbers):
    merged = ranges([n * 300 for n in numbers], 300)
    covered = {second for low, high in merged for second in range(low, high, 300)}
    assert covered == {n * 300 for n in numbers}
    assert all(before[1] < after[0] for before, after in itertools.pairwise(merged))


def test_expected_sum_counts_an_event_once_per_touched_window():
    assert WindowSpec(900, 300).expected_sum([3000, 3300, 3600], {3600: 5}) == 15
    assert WindowSpec(900, 300).expected_sum([3600], {3600: 5, 3900: 2, 4500: 7}) == 7


@pytest.mark.parametrize("change", [{"written": 9}, {"quarantined": 1}, {"duplicate": 1}, {"held": 1}, {"files_failed": 1}])
def test_books_do_not_balance_when_any_one_term_is_off(change):
    right = {"read": 10, "written": 10, "files_read": 2, "files_ok": 2}
    assert Books(**right).is_balanced
    wrong = Books(**{**right, **change})
    assert not wrong.is_balanced
    assert "≠" in wrong.equation()


def test_gold_never_holds():
    assert load_pipeline("cloudtrail").policy("gold").consequence("warning") == "stop"
    assert GatePolicy().consequence("warning") == "hold"


def test_an_hourly_run_writes_the_hourly_gold_tables_and_no_other():
    pipeline = load_pipeline("cloudtrail")
    daily = ("gold.cloudtrail_account_activity_1d", "gold.cloudtrail_first_seen")
    assert tuple(map(str, pipeline.gold_tables_of("daily"))) == daily
    assert not {*map(str, pipeline.tables("gold"))} & {*daily}
    assert {*pipeline.all_tables} >= {*pipeline.gold_tables} == {*pipeline.tables("gold"), *pipeline.gold_tables_of("daily")}


def test_an_unknown_pipeline_is_named_with_those_that_exist():
    with pytest.raises(UnknownName, match="cloudtrail"):
        load_pipeline("nothing")


def test_a_wrong_setting_is_one_sentence_that_names_it():
    with pytest.raises(ConfigurationFault, match="ASSAY_BATCH_FILES"):
        load_settings(batch_files=0)


@pytest.mark.parametrize(
    ("path", "is_read"),
    [
        ("AWSLogs/1/CloudTrail/eu/2023/07/10/x.json.gz", True),
        ("_odd.json.gz", True),
        (".hidden.json", True),
        ("AWSLogs/1/CloudTrail-Digest/eu/2023/07/10/x.json.gz", False),
        ("x.json.gz.tmp", False),
        ("notes.txt", False),
    ],
)
def test_only_logs_are_read_and_the_rest_has_a_reason(path, is_read):
    reason = load_pipeline("cloudtrail").landing.reason_not_read(path)
    assert (reason is None) == is_read
