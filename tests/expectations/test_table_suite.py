"""The suite over whole tables: for each expectation a set of rows and facts that breaks it and nothing else. And what a usual day is."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from batches import Batch
from pyspark.sql import SparkSession

from expectations.gate import evaluate
from spark_jobs.jobs.check_tables import POLICY
from spark_jobs.jobs.table_facts import DAYS_BEFORE, volume

MONDAY = date(2024, 5, 6)
HOURLY = "gold.cloudtrail_activity_1h"


def tables() -> Batch:
    """Three events on two dates, of five records: one is a duplicate, one was quarantined by bronze."""
    return Batch(
        layer="tables", subject="events", schema="event_id string, event_date date",
        rows=tuple({"event_id": f"event-{n}", "event_date": MONDAY + timedelta(days=n // 2)} for n in range(3)),
        facts={
            "records": 5, "in_bronze": 5, "bronze_rows": 4, "in_silver": 4, "gold": {HOURLY: (3, 3)},
            "volume": {"events": 2, "low": 1, "high": 3, "not_judged": ""},
            "event_age_minutes": 60, "arrival_age_minutes": 50, "fresh_minutes": 120,
        },
    )  # fmt: skip


BROKEN = {
    "no event_id occurs twice on one date of the whole table": tables().row(1, event_id="event-0"),
    "no event_id occurs under two dates": tables().row(2, event_id="event-0"),
    "the records of the day's files are in bronze, its quarantine or held": tables().also(in_bronze=4),
    "the day's bronze rows are in silver, quarantine, duplicates or held, or wait to be read": tables().also(in_silver=5),
    f"{HOURLY} adds up to silver on the dates that the day brought events for": tables().also(gold={HOURLY: (2, 3)}),
    "the day has as many events as the 14 days before let expect": tables().also(
        volume={"events": 4, "low": 1, "high": 3, "not_judged": ""}
    ),
    "the newest file is as fresh as declared": tables().also(arrival_age_minutes=121),
    "the newest event is as fresh as declared": tables().also(event_age_minutes=121),
}
ONLY_SAID = {"the day has as many events as the 14 days before let expect", *[one for one in BROKEN if "fresh" in one]}


@pytest.mark.parametrize(("sentence", "batch"), BROKEN.items(), ids=list(BROKEN))
def test_broken_tables_fail_exactly_the_expectation_they_break(spark: SparkSession, sentence: str, batch: Batch) -> None:
    given = {"table": "silver.cloudtrail_events", "batch_id": "tables-2024-05-06", "books": None, "facts": batch.facts}
    verdict = evaluate(batch.frame(spark), suite=batch.suite(), policy=POLICY, is_published=True, **given)
    assert [check.sentence for check in verdict.checks if not check.success] == [sentence]
    assert verdict.outcome == ("warn" if sentence in ONLY_SAID else "stop")
    assert (
        sentence in verdict.sentence and "The table stands as it is" in verdict.sentence and "held" not in verdict.sentence.split(". ")[-1]
    )
    if "fresh" in sentence:
        assert "121 min, at most 120 min" in verdict.sentence
    if "event_id" in sentence:
        assert next(check.sample for check in verdict.checks if not check.success), "the repeated key is shown, masked"


def test_good_tables_pass_with_every_expectation_evaluated_and_a_missing_fact_never_does(spark: SparkSession) -> None:
    verdict = tables().judge(spark, POLICY)
    assert verdict.outcome == "pass", verdict.sentence
    assert len(verdict.checks) == len(BROKEN)
    for fact in tables().facts:
        assert tables().also(**{fact: None}).judge(spark, POLICY).outcome == "stop", fact


def test_a_day_without_history_is_not_judged_and_says_so(spark: SparkSession) -> None:
    few = tables().also(volume=volume({MONDAY: 7, MONDAY - timedelta(days=1): 2}, MONDAY, MONDAY + timedelta(days=1)))
    verdict = few.judge(spark, POLICY)
    assert verdict.outcome == "pass"
    seen = [check.observed for check in verdict.checks if "14 days" in check.sentence]
    assert seen == ["7; not judged: 1 days of history before 2024-05-06, 7 are wanted"]
    assert "is not over" in volume({}, MONDAY, MONDAY)["not_judged"]


def test_the_band_of_usual_days_is_robust() -> None:
    """One day of a flood among the fourteen changes it little; days that are all alike still make a band; a silent day is a day."""
    usual = {MONDAY - timedelta(days=n): 1000 + (n % 3) * 20 for n in range(1, DAYS_BEFORE + 1)}

    def band(events: dict[date, int]) -> tuple[int, int]:
        found = volume(events, MONDAY, MONDAY + timedelta(days=1))
        return found["low"], found["high"]

    low, high = band(usual)
    assert low < 1000 < high < 2000 and low > 500
    flooded = band(usual | {MONDAY - timedelta(days=3): 1_000_000})
    assert abs(flooded[1] - high) < 50
    silent = usual | {MONDAY - timedelta(days=n): 0 for n in (2, 4, 6)}
    assert band(silent)[0] > 500, "three silent days are no reason to take a fourth for usual"
    seldom = {day: count for day, count in usual.items() if (MONDAY - day).days in (1, 7, 14)}
    assert "no number is usual" in volume(seldom, MONDAY, MONDAY + timedelta(days=1))["not_judged"]
    assert band({date(2013, 1, 1): 1, **usual}) == (low, high), "a stray old event begins no history"
    assert volume({date(2013, 1, 1): 1, MONDAY: 5}, MONDAY, MONDAY + timedelta(days=1))["not_judged"].startswith("0 days")
