"""The metrics behind our expectations, computed by Great Expectations on a Spark frame.

Why own metrics: those that ship with Great Expectations take a job for each value they report (and a window with one sort per
uniqueness check). Here all conditions of a suite and its key are aggregate expressions, which Great Expectations bundles into one
query, and they already bring the observed numbers; only the per-file check takes a query of its own.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from expectations.gx import (
    MetricDomainTypes,
    MetricPartialFunctionTypes,
    SparkDFExecutionEngine,
    TableMetricProvider,
    metric_partial,
    metric_value,
)

SAMPLE_ROWS = 5
SAMPLE_CHARACTERS = 80  # of one value, before masking: enough to recognise it, and a 20 MB text never reaches the driver

_aggregate = metric_partial(
    engine=SparkDFExecutionEngine,
    partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN,
    domain_type=MetricDomainTypes.TABLE,
)
_value = metric_value(engine=SparkDFExecutionEngine)


def breaks(condition: str) -> str:
    """SQL that is true where a row does not satisfy the condition. Unknown (null) is not satisfied, so nulls never pass unseen."""
    return f"not coalesce(({condition}), false)"


class RowsBreaking(TableMetricProvider):
    """The number of rows for which the condition is false or unknown."""

    metric_name = "rows.breaking"
    value_keys = ("condition",)

    @_aggregate
    def _spark(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:
        return F.expr(f"count_if({breaks(metric_value_kwargs['condition'])})"), metric_domain_kwargs, {}


class RowsBreakingSample(TableMetricProvider):
    """At most SAMPLE_ROWS of those rows: the values of the columns as text, shortened in the middle."""

    metric_name = "rows.breaking.sample"
    value_keys = ("condition", "columns")

    @_value
    def _spark(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:
        rows = execution_engine.get_domain_records(metric_domain_kwargs).where(breaks(metric_value_kwargs["condition"]))
        return _sample(rows, metric_value_kwargs["columns"])


class ExpressionValue(TableMetricProvider):
    """The value of one SQL aggregate over the rows."""

    metric_name = "expression.value"
    value_keys = ("expression",)

    @_aggregate
    def _spark(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:
        return F.expr(metric_value_kwargs["expression"]), metric_domain_kwargs, {}


class KeyHashes(TableMetricProvider):
    """The number of distinct 64-bit hashes of the key. As many hashes as rows proves the key unique: equal keys have equal hashes.

    Fewer do not disprove it, since two keys may share a hash; then KeyRepeats decides.
    """

    metric_name = "key.hashes"
    value_keys = ("columns",)

    @_aggregate
    def _spark(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:
        return F.count_distinct(F.xxhash64(*metric_value_kwargs["columns"])), metric_domain_kwargs, {}


class KeyRepeats(TableMetricProvider):
    """How many rows have a key that another row has already: compares the keys themselves."""

    metric_name = "key.repeats"
    value_keys = ("columns",)

    @_value
    def _spark(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> int:
        repeated = _repeated(execution_engine.get_domain_records(metric_domain_kwargs), metric_value_kwargs["columns"])
        return int(repeated.agg(F.coalesce(F.sum(F.col("count") - 1), F.lit(0))).collect()[0][0])


class KeyRepeatsSample(TableMetricProvider):
    """At most SAMPLE_ROWS keys that more than one row has."""

    metric_name = "key.repeats.sample"
    value_keys = ("columns",)

    @_value
    def _spark(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:
        key = metric_value_kwargs["columns"]
        return _sample(_repeated(execution_engine.get_domain_records(metric_domain_kwargs), key), key)


class KeyHashesWithin(TableMetricProvider):
    """The number of distinct 64-bit hashes of the key columns that an expectation compares with those of a wider key."""

    metric_name = "key.hashes.within"
    value_keys = ("key",)

    @_aggregate
    def _spark(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:
        return F.count_distinct(F.xxhash64(*metric_value_kwargs["key"])), metric_domain_kwargs, {}


class KeyDivided(TableMetricProvider):
    """How many values of the key stand beside more than one value of the other columns: compares the values themselves."""

    metric_name = "key.divided"
    value_keys = ("key", "columns")

    @_value
    def _spark(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> int:
        return _divided(execution_engine, metric_domain_kwargs, metric_value_kwargs).count()


class KeyDividedSample(TableMetricProvider):
    """At most SAMPLE_ROWS of those values."""

    metric_name = "key.divided.sample"
    value_keys = ("key", "columns")

    @_value
    def _spark(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:
        return _sample(_divided(execution_engine, metric_domain_kwargs, metric_value_kwargs), metric_value_kwargs["key"])


class FileRows(TableMetricProvider):
    """Per file id: number of rows, smallest and largest record index. Rows without a file id belong to none."""

    metric_name = "files.rows"

    @_value
    def _spark(cls, execution_engine: Any, metric_domain_kwargs: Any, **_: Any) -> Any:
        index = F.col("_record_index")
        files = execution_engine.get_domain_records(metric_domain_kwargs).where("_file_id is not null").groupBy("_file_id")
        rows = files.agg(F.count(F.lit(1)).alias("rows"), F.min(index).alias("first"), F.max(index).alias("last")).collect()
        return {str(row["_file_id"]): [row["rows"], row["first"], row["last"]] for row in rows}


def _repeated(rows: DataFrame, key: list[str]) -> DataFrame:
    return rows.groupBy(*key).count().where("count > 1")


def _divided(execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any) -> DataFrame:
    rows = execution_engine.get_domain_records(metric_domain_kwargs).select(*metric_value_kwargs["columns"]).distinct()
    return _repeated(rows, metric_value_kwargs["key"])


def _sample(rows: DataFrame, columns: list[str]) -> list[list[str | None]]:
    half = SAMPLE_CHARACTERS // 2
    texts = []
    for name in columns:
        text = F.col(name).cast("string")
        short = F.concat(F.substring(text, 1, half), F.substring(text, -half, half))
        texts.append(F.when(F.length(text) > SAMPLE_CHARACTERS, short).otherwise(text).alias(name))
    return [list(row) for row in rows.select(*texts).limit(SAMPLE_ROWS).collect()]
