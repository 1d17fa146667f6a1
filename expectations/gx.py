"""Great Expectations, and the parts of it we use. The only module that imports it, so that it is imported the short way."""

from __future__ import annotations

import gc
import os

from expectations.lazy_imports import short_imports

os.environ["GX_ANALYTICS_ENABLED"] = "False"  # read at import; nothing about a batch leaves this process

_collects = gc.isenabled()
gc.disable()  # thousands of classes are made and none dies: collecting among them costs 0.4 s
try:
    with short_imports():
        from great_expectations import ExpectationSuite, get_context
        from great_expectations.compatibility import pydantic
        from great_expectations.core.metric_domain_types import MetricDomainTypes
        from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
        from great_expectations.data_context.types.base import ProgressBarsConfig
        from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
        from great_expectations.expectations.expectation import BatchExpectation
        from great_expectations.expectations.metadata_types import FailureSeverity
        from great_expectations.expectations.metrics.metric_provider import metric_partial, metric_value
        from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
        from great_expectations.expectations.registry import get_metric_kwargs
        from great_expectations.validator.metric_configuration import MetricConfiguration
finally:
    if _collects:
        gc.enable()

CRITICAL, WARNING, INFO = FailureSeverity.CRITICAL, FailureSeverity.WARNING, FailureSeverity.INFO

__all__ = [
    "CRITICAL",
    "INFO",
    "WARNING",
    "BatchExpectation",
    "ExpectationSuite",
    "MetricConfiguration",
    "MetricDomainTypes",
    "MetricPartialFunctionTypes",
    "ProgressBarsConfig",
    "SparkDFExecutionEngine",
    "TableMetricProvider",
    "get_context",
    "get_metric_kwargs",
    "metric_partial",
    "metric_value",
    "pydantic",
]
