"""For each expectation of each suite: one batch that breaks it and nothing else. And the good batches pass."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest
from batches import FILE, NOON, Batch, account_activity, activity, bronze, denied, first_seen, principal_activity, silver
from pyspark.sql import SparkSession

from spark_jobs.spec.books import Books

GOOD = {
    "bronze": bronze, "silver": silver, "activity_1h": activity, "principal_activity_1h": principal_activity, "denied_15m": denied,
    "account_activity_1d": account_activity, "first_seen": first_seen,
}  # fmt: skip
UPPER = FILE.upper()
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)

_stray_row = {**bronze().rows[0], "_file_id": None, "_rid": f"{FILE}:9", "_record_index": 9}

BRONZE = {
    "every record has _rid": bronze().row(_rid=None),
    # A row of no file stands beside the file's own rows, which are all there.
    "every record has _file_id": replace(bronze(), rows=(*bronze().rows, _stray_row)).of(
        Books(read=5, written=4, quarantined=1, files_read=2, files_ok=1, files_failed=1)
    ),
    "every record has _source_file": bronze().row(_source_file=None),
    "every record has _record_index": bronze().row(1, _record_index=None),
    "every record has _file_sha256": bronze().row(_file_sha256=None),
    "every record has _ingested_at": bronze().row(_ingested_at=None),
    "every record has _batch_id": bronze().row(_batch_id=None),
    "every record has raw": bronze().row(raw=None),
    "no record id occurs twice": bronze().row(1, _rid=f"{FILE}:0", _record_index=0),
    "_rid is <32 hex digits>:<index>": replace(
        bronze().also(files={UPPER: {"records": 4, "quarantined": 1}}),
        rows=tuple(row | {"_file_id": UPPER, "_rid": f"{UPPER}:{row['_record_index']}"} for row in bronze().rows),
    ),
    "_rid names the record's own file and index": bronze().row(_rid=f"{FILE}:2"),
    "_file_sha256 is 64 hex digits": bronze().row(_file_sha256="ab" * 31),
    "raw is the text of a JSON value": bronze().row(raw="  "),
    "each file's record indexes are dense, quarantined ones included": bronze().row(2, _rid=f"{FILE}:4", _record_index=4),
    "every file that was read has an outcome": bronze().also(outcomes=1),
    "the rows are as many as the books say": bronze().of(Books(read=5, written=4, quarantined=1)),
}

SILVER = {
    **{f"every event has {name}": silver().row(1, **{name: None}) for name in ("event_id", "event_time", "event_date", "account_id")},
    **{f"every event has {name}": silver().row(1, **{name: None}) for name in ("aws_region", "event_source", "event_name")},
    **{f"every event has {name}": silver().row(1, **{name: None}) for name in ("principal_arn", "_rid")},
    "no event_id occurs twice in the batch": silver().row(1, event_id=silver().rows[0]["event_id"]),
    "no event is older than CloudTrail (2013)": silver().row(event_time=NOON.replace(year=2012), event_date=date(2012, 7, 10)),
    "no event is more than 24 hours in the future of its ingestion": silver().row(
        event_time=NOON + DAY + timedelta(seconds=1), event_date=date(2023, 7, 11)
    ),
    "event_date is the UTC date of event_time": silver().row(event_time=NOON.replace(day=9, hour=23, minute=59, second=59)),
    "account_id is 12 digits": silver().row(account_id="12345678901"),
    "aws_region looks like us-east-1": silver().row(aws_region="us-east-1\n"),
    "event_id is a UUID": silver().row(event_id="0a1b2c3d"),
    "event_category is a known one": silver().row(event_category="Managemen"),
    "event_type is a known one": silver().row(event_type="AwsApiCalls"),
    "every bronze record of the batch was read": silver().also(bronze_rows=6),
    "the rows are as many as the books say": silver().of(Books(read=5, written=2, quarantined=2, duplicate=1)),
    "at most half of a batch of more than 20 records is quarantined": silver()
    .of(Books(read=21, written=3, quarantined=11, duplicate=7))
    .also(bronze_rows=21),
    "no event was delivered again with other content": silver().also(conflicting=1),
}


def _of_any_gold_table(good: Batch) -> dict[str, Batch]:
    """What breaks the expectations that every gold table has."""
    spec = good.facts["spec"]
    first, other = good.rows[0], good.rows[1]
    minutes, seconds = timedelta(minutes=1), spec.window.length_s
    return {
        **{f"every row has {name}": good.row(**{name: None}) for name in ("window_start", *spec.grain)},
        "each window has each group once": good.row(1, **{name: first[name] for name in spec.grain}),
        f"a window is {seconds} seconds long": good.row(window_end=first["window_end"] + minutes),
        f"a window starts on a multiple of {spec.window.slide_s} seconds": good.row(
            **{name: first[name] + minutes for name in first if name in ("window_start", "window_end", "first_event_at")}
        ),
        "window_date is the UTC date of window_start": good.row(window_date=date(2023, 7, 11)),
        f"{spec.counts} adds up to the silver rows of these windows": good.also(expected_sum=good.facts["expected_sum"] + 1),
        f"{spec.counts} is positive: a group without events has no row": good.row(
            **{name: 0 for name in first if name.endswith("_count") or name.startswith("distinct_")}
        ).also(expected_sum=other[spec.counts]),
    }


def _of_activity(good: Batch) -> dict[str, Batch]:
    end = good.rows[0]["window_end"]
    return {
        **_of_any_gold_table(good),
        "error_count is between 0 and event_count": good.row(error_count=5),
        "distinct_principals is between 0 and event_count": good.row(distinct_principals=-1),
        "the first and the last event lie in the window": good.row(last_event_at=end),
        "the first event is not after the last": good.row(first_event_at=end - 2 * SECOND, last_event_at=end - 3 * SECOND),
    }


ACTIVITY, ACCOUNT_ACTIVITY = _of_activity(activity()), _of_activity(account_activity())
PRINCIPAL_ACTIVITY = _of_any_gold_table(principal_activity()) | {
    f"{part} is between 0 and event_count": principal_activity().row(**{part: 6})
    for part in ("denied_count", "distinct_services", "distinct_source_addresses", "distinct_regions")
}
DENIED = _of_any_gold_table(denied())
FIRST_SEEN = {
    **{f"every row has {name}": first_seen().row(**{name: None}) for name in ("kind", "value", "first_event_at", "event_id", "_rid")},
    "each kind has each value once": first_seen().row(kind="event_name", value="GetObject"),
    "kind is a declared one": first_seen().row(kind="principals"),
    "the rows are the values that were not known as early": first_seen().also(expected_rows=3),
}

BROKEN = {
    "bronze": BRONZE, "silver": SILVER, "activity_1h": ACTIVITY, "principal_activity_1h": PRINCIPAL_ACTIVITY, "denied_15m": DENIED,
    "account_activity_1d": ACCOUNT_ACTIVITY, "first_seen": FIRST_SEEN,
}  # fmt: skip
CASES = [pytest.param(sentence, batch, id=f"{name}: {sentence}") for name, cases in BROKEN.items() for sentence, batch in cases.items()]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_batch_passes_with_every_expectation_evaluated(spark: SparkSession, name: str) -> None:
    verdict = GOOD[name]().judge(spark)
    assert verdict.outcome == "pass", verdict.sentence
    assert len(verdict.checks) == len(GOOD[name]().suite().expectations) > 0
    assert all(check.success and not check.exception for check in verdict.checks)


@pytest.mark.parametrize(("sentence", "batch"), CASES)
def test_a_broken_batch_fails_exactly_the_expectation_it_breaks(spark: SparkSession, sentence: str, batch: Batch) -> None:
    verdict = batch.judge(spark)
    assert [check.sentence for check in verdict.checks if not check.success] == [sentence]
    assert not any(check.exception for check in verdict.checks)
    assert verdict.outcome != "pass"
    assert sentence in verdict.sentence


@pytest.mark.parametrize("name", GOOD)
def test_each_expectation_has_a_batch_that_breaks_it(name: str) -> None:
    sentences = [expectation.description for expectation in GOOD[name]().suite().expectations]
    assert len(set(sentences)) == len(sentences)
    assert set(sentences) == set(BROKEN[name])


@pytest.mark.parametrize(
    ("column", "bad"),
    [("event_time", NOON.replace(year=2012)), ("account_id", "x"), ("aws_region", "x"), ("event_id", "x")],
)
def test_a_column_without_any_value_does_not_pass_for_a_right_one(spark: SparkSession, column: str, bad: object) -> None:
    """The value checks let single nulls through; the batch must fail all the same."""
    empty = silver()
    for at in range(3):
        empty = empty.row(at, **{column: None})
    assert empty.judge(spark).outcome == "stop"
    assert silver().row(**{column: bad}).judge(spark).outcome != "pass"
