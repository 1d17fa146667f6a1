"""Frames for the Spark tests of this folder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from spark_jobs.pipelines.cloudtrail.silver import parse_events
from tests.builders.events import BRONZE_COLUMNS, bronze_rows


def bronze_frame(spark: SparkSession, raws: Iterable[str | None]) -> DataFrame:
    return spark.createDataFrame(bronze_rows(raws), BRONZE_COLUMNS)


def parse(spark: SparkSession, raws: Iterable[str | None]) -> list[Row]:
    """The silver rows of raw records, in their order."""
    return sorted(parse_events(bronze_frame(spark, raws)).collect(), key=lambda row: row["_record_index"])


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)
