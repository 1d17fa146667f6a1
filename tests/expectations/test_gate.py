"""The gate: what each severity leads to, and that it never passes for want of evidence."""

from __future__ import annotations

import gc
import os
import socket
from dataclasses import replace
from typing import Any

import pytest
from batches import ANY, Batch, bronze, denied, silver
from pyspark.sql import SparkSession

from expectations.custom.rows import ExpectColumnToBePresent, ExpectKeyToBeUnique, ExpectRowsToSatisfy
from expectations.gx import CRITICAL, INFO, WARNING
from expectations.results import mask
from expectations.suite import Suite
from spark_jobs.spec.books import Books
from spark_jobs.spec.gates import GatePolicy

PRESENT = ExpectColumnToBePresent(columns=["event_id"], severity=CRITICAL, description="every event has an id")
SECRET = "AKIAIOSFODNN7EXAMPLE"


def suite_of(*expectations: Any) -> Suite:
    return Suite("silver.cloudtrail_events", expectations)


def failing(severity: Any) -> Any:
    return ExpectRowsToSatisfy(columns=["aws_region"], condition="false", severity=severity, description=f"never ({severity.value})")


@pytest.mark.parametrize("severity", [CRITICAL, WARNING, INFO], ids=lambda severity: severity.value)
@pytest.mark.parametrize("consequence", ["stop", "hold", "warn", "pass"])
def test_a_failure_has_the_consequence_that_the_policy_gives_its_severity(spark: SparkSession, severity: Any, consequence: Any) -> None:
    other = "pass" if consequence != "pass" else "stop"
    policy = GatePolicy(**{word: consequence if word == severity.value else other for word in ("critical", "warning", "info")})
    verdict = silver().judge(spark, policy, suite_of(PRESENT, failing(severity)))
    assert verdict.outcome == consequence
    assert "3 of 3 rows" in verdict.sentence


def test_the_standard_policy_stops_holds_and_warns(spark: SparkSession) -> None:
    outcomes = [silver().judge(spark, suite=suite_of(failing(severity))).outcome for severity in (CRITICAL, WARNING, INFO)]
    assert outcomes == ["stop", "hold", "warn"]


def test_the_strictest_failure_decides_and_is_named_first(spark: SparkSession) -> None:
    verdict = silver().judge(spark, suite=suite_of(failing(INFO), failing(CRITICAL), failing(WARNING)))
    assert verdict.outcome == "stop"
    assert verdict.sentence.index("never (critical)") < verdict.sentence.index("never (warning)") < verdict.sentence.index("never (info)")


def test_a_held_batch_says_where_its_rows_wait(spark: SparkSession) -> None:
    assert "silver.cloudtrail_events_held" in silver().judge(spark, suite=suite_of(failing(WARNING))).sentence


def not_passed(spark: SparkSession, batch: Batch, suite: Suite | None, saying: str) -> None:
    verdict = batch.judge(spark, suite=suite)
    assert verdict.outcome == "stop"
    assert saying in verdict.sentence
    assert "\n" not in verdict.sentence


def test_an_empty_suite_does_not_pass(spark: SparkSession) -> None:
    not_passed(spark, silver(), suite_of(), "the suite has no expectations")


@pytest.mark.parametrize("good", [bronze, silver, denied])
def test_a_missing_fact_does_not_pass(spark: SparkSession, good: Any) -> None:
    for fact in good().suite().facts:
        not_passed(spark, good().also(**{fact: None}), None, f"the suite was not given {fact}")


def test_a_missing_column_does_not_pass_and_is_named(spark: SparkSession) -> None:
    not_passed(spark, replace(silver(), without=("aws_region", "event_type")), None, "the frame has no column aws_region, event_type")


def test_unbalanced_books_do_not_pass(spark: SparkSession) -> None:
    not_passed(spark, replace(silver(), books=Books(read=9, written=3)), None, "the books do not balance (9 read ≠ 3 written")


def test_an_expectation_that_raises_does_not_pass_whatever_its_severity(spark: SparkSession) -> None:
    raising = ExpectRowsToSatisfy(columns=["event_id"], condition="no_such_function(event_id)", severity=INFO, description="broken")
    not_passed(spark, silver(), suite_of(PRESENT, raising), "could not be evaluated")
    verdict = silver().judge(spark, suite=suite_of(raising))
    assert "no_such_function" in verdict.checks[0].exception
    assert not verdict.checks[0].success


def test_an_error_in_the_data_does_not_pass(spark: SparkSession) -> None:
    """ANSI mode: a cast of one bad value raises while the job runs, not when it is planned."""
    raising = ExpectRowsToSatisfy(columns=["event_id"], condition="cast(event_id as int) > 0", severity=INFO, description="broken")
    not_passed(spark, silver(), suite_of(PRESENT, raising), "could not be evaluated")


def test_a_fault_of_the_library_does_not_pass(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise MemoryError("no heap\nat …")

    monkeypatch.setattr("expectations.validation.validate", fails)
    not_passed(spark, silver(), None, "the suite could not be evaluated (MemoryError: no heap)")


def test_fewer_results_than_expectations_do_not_pass(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from expectations import validation

    whole = validation.validate
    monkeypatch.setattr("expectations.validation.validate", lambda *given: whole(*given)[1:])
    expected = len(silver().suite().expectations)
    not_passed(spark, silver(), None, f"{expected - 1} of {expected} expectations gave a result")


EMPTY = {
    "all were duplicates": (silver(), Books(read=5, written=0, duplicate=5), {"bronze_rows": 5}),
    "all were quarantined": (silver(), Books(read=5, written=0, quarantined=5), {"bronze_rows": 5}),
    "no file could be read": (bronze(), Books(read=0, written=0, files_read=2, files_failed=2), {"files": {}}),
    "the files hold no records": (bronze(), Books(read=0, written=0, files_read=2, files_ok=2), {"files": {}}),
    "nothing was denied in these windows": (denied(), Books(read=0, written=0), {"expected_sum": 0, "source_rows": 7}),
}


@pytest.mark.parametrize("case", EMPTY)
def test_an_empty_frame_passes_when_its_batch_read_something_and_the_books_balance(spark: SparkSession, case: str) -> None:
    batch, books, facts = EMPTY[case]
    verdict = replace(batch.of(books).also(**facts), rows=()).judge(spark)
    assert verdict.outcome == "pass", verdict.sentence


@pytest.mark.parametrize(
    "batch",
    [
        silver().of(Books(read=0, written=0)).also(bronze_rows=0),
        bronze().of(Books(read=0, written=0)).also(files={}, files_read=0, outcomes=0),
        denied().of(Books(read=0, written=0)).also(expected_sum=0, source_rows=0),
        replace(denied().also(expected_sum=0), books=None),
    ],
    ids=["silver", "bronze", "gold", "no books"],
)
def test_an_empty_frame_whose_batch_read_nothing_does_not_pass(spark: SparkSession, batch: Batch) -> None:
    not_passed(spark, replace(batch, rows=()), None, "the frame is empty")


def test_samples_are_few_and_masked_and_the_secret_is_nowhere_in_the_verdict(spark: SparkSession) -> None:
    rows = tuple(silver().rows[0] | {"aws_region": SECRET if at else "us-1", "event_name": "x" * 200} for at in range(9))
    ten = replace(silver(), rows=rows)
    odd = ExpectRowsToSatisfy(columns=["aws_region", "event_name"], condition="false", severity=WARNING, description="odd")
    verdict = ten.judge(spark, suite=suite_of(odd))
    (check,) = verdict.checks
    assert check.unexpected_count == 9
    assert len(check.sample) == 5
    assert all(len(text) <= 80 for text in check.sample)
    assert {text.split(" | ")[0] for text in check.sample} <= {"us-1", "AK****************LE"}
    assert SECRET not in repr(verdict) and "IOSFODNN" not in repr(verdict)


@pytest.mark.parametrize(("value", "masked"), [("", ""), ("secret", "secret"), ("secrets", "se***ts"), ("0" * 9999, f"00{'*' * 76}00")])
def test_masks_all_but_the_ends_of_a_value(value: str, masked: str) -> None:
    assert mask(value) == masked


def test_keys_with_equal_hashes_are_not_taken_for_equal_keys(spark: SparkSession) -> None:
    """xxhash64 skips nulls, so (x, null) and (null, x) have one hash: the cheap count sees a repeat that is none."""
    two = replace(
        silver(),
        rows=(silver().rows[0] | {"event_name": None, "event_type": "x"}, silver().rows[0] | {"event_name": "x", "event_type": None}),
    )
    key = ExpectKeyToBeUnique(columns=["event_name", "event_type"], severity=CRITICAL, description="key")
    assert two.frame(spark).selectExpr("xxhash64(event_name, event_type)").distinct().count() == 1
    assert two.judge(spark, suite=suite_of(key)).outcome == "pass"


def test_a_repeated_key_with_nulls_is_a_repeat(spark: SparkSession) -> None:
    two = replace(silver(), rows=(silver().rows[0] | {"event_name": None},) * 3)
    key = ExpectKeyToBeUnique(columns=["event_id", "event_name"], severity=CRITICAL, description="key")
    (check,) = two.judge(spark, suite=suite_of(key)).checks
    assert (check.success, check.unexpected_count, len(check.sample)) == (False, 2, 1)


def test_an_expectation_of_great_expectations_itself_can_stand_in_a_suite(spark: SparkSession) -> None:
    from great_expectations.expectations import ExpectColumnValuesToBeInSet

    theirs = ExpectColumnValuesToBeInSet(column="aws_region", value_set=["eu-west-1"], severity=WARNING, description="in Ireland")
    verdict = silver().judge(spark, suite=suite_of(PRESENT, theirs))
    assert verdict.outcome == "hold"
    assert verdict.checks[1].unexpected_count == 3
    assert verdict.checks[1].sample[0] == "us*********-1"
    assert replace(silver(), without=("aws_region",)).judge(spark, ANY, suite_of(theirs)).outcome == "stop"


@pytest.mark.parametrize(("good", "queries"), [(bronze, 2), (silver, 1), (denied, 1)])
def test_a_batch_that_passes_costs_one_query_and_bronze_one_more_for_its_files(spark: SparkSession, good: Any, queries: int) -> None:
    """Without adaptive execution, as here, a query is one Spark job."""
    group = f"count jobs of {good.__name__}"
    spark.sparkContext.setJobGroup(group, "")
    try:
        assert good().judge(spark).outcome == "pass"
    finally:
        spark.sparkContext.setJobGroup("", "")
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(group)) == queries


def test_nothing_about_a_batch_leaves_the_machine(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses: list[Any] = []
    connect = socket.socket.connect

    def noted(this: socket.socket, address: Any) -> None:
        addresses.append(address)
        connect(this, address)

    monkeypatch.setattr(socket.socket, "connect", noted)
    silver().row(account_id="x").judge(spark)
    assert all(address[0] in ("127.0.0.1", "::1", "localhost") for address in addresses), addresses
    assert os.environ["GX_ANALYTICS_ENABLED"] == "False"


def test_batches_judged_before_are_not_kept_in_memory(spark: SparkSession) -> None:
    """A continuous job judges thousands of batches in one process."""
    from great_expectations.execution_engine import SparkDFExecutionEngine

    for _ in range(3):
        silver().judge(spark)
    gc.collect()
    assert sum(type(thing) is SparkDFExecutionEngine for thing in gc.get_objects()) <= 1


def test_great_expectations_leaves_the_callers_cache_alone(spark: SparkSession) -> None:
    stored = len(spark.sparkContext._jsc.getPersistentRDDs())
    silver().judge(spark)
    assert len(spark.sparkContext._jsc.getPersistentRDDs()) == stored
