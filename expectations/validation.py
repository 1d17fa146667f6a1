"""Great Expectations at work: the only module that runs it. Importing this one imports it, which takes seconds of processor time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expectations.gx import ExpectationSuite, ProgressBarsConfig, get_context
from expectations.results import place, placed
from expectations.suite import Suite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COUNTS = {"result_format": "BASIC"}  # counts and observed values; our expectations ask no job for them
_SAMPLES = {"result_format": "COMPLETE"}


def validate(frame: DataFrame, suite: Suite) -> list[Any]:
    """Great Expectations' results, one per expectation, in any order. Those that failed were evaluated again, with samples."""
    context = get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    # persist=False: the frame is persisted by the caller, and a second copy would be left behind.
    asset = context.data_sources.add_spark("batch", persist=False).add_dataframe_asset(suite.name)
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})
    expectations = placed(suite.expectations)
    counted = batch.validate(ExpectationSuite(suite.name, expectations=expectations), result_format=_COUNTS).results
    failed = {place(result) for result in counted if not result.success and _was_evaluated(result)}
    if not failed:
        return list(counted)
    again = ExpectationSuite(suite.name, expectations=[e for e in expectations if place(e) in failed])
    sampled = batch.validate(again, result_format=_SAMPLES).results
    return [result for result in counted if place(result) not in failed] + list(sampled)


def _was_evaluated(result: Any) -> bool:
    return bool(result.result)
