"""Great Expectations at work: the only module that runs it. Importing this one imports it, which takes seconds of processor time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

os.environ["GX_ANALYTICS_ENABLED"] = "False"  # read at import; nothing about a batch leaves this process

import great_expectations as gx
from great_expectations.data_context.types.base import ProgressBarsConfig

from expectations.results import POSITION
from expectations.suite import Suite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COUNTS = {"result_format": "BASIC"}  # counts and observed values; our expectations ask no job for them
_SAMPLES = {"result_format": "COMPLETE"}


def validate(frame: DataFrame, suite: Suite) -> list[Any]:
    """Great Expectations' results, one per expectation, in any order. Those that failed were evaluated again, with samples."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    # persist=False: the frame is persisted by the caller, and a second copy would be left behind.
    asset = context.data_sources.add_spark("batch", persist=False).add_dataframe_asset(suite.name)
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})
    expectations = [
        expectation.copy(update={"meta": {**(expectation.meta or {}), POSITION: position}})
        for position, expectation in enumerate(suite.expectations)
    ]
    results = batch.validate(gx.ExpectationSuite(suite.name, expectations=expectations), result_format=_COUNTS).results
    failed = {result.expectation_config.meta[POSITION] for result in results if not result.success and _was_evaluated(result)}
    if not failed:
        return list(results)
    again = gx.ExpectationSuite(suite.name, expectations=[e for e in expectations if e.meta[POSITION] in failed])
    sampled = batch.validate(again, result_format=_SAMPLES).results
    return [result for result in results if result.expectation_config.meta[POSITION] not in failed] + list(sampled)


def _was_evaluated(result: Any) -> bool:
    return bool(result.result)
