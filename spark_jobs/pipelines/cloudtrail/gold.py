"""Gold of CloudTrail: windowed counts, each a batch computation over silver rows."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.pipelines.cloudtrail.pipeline import DENIED, PIPELINE

COLUMNS = (
    "event_time",
    "account_id",
    "aws_region",
    "event_source",
    "event_name",
    "principal_arn",
    "error_code",
    "source_ip_address",
)
"""The silver columns that the gold tables read."""

_SPECS = {spec.subject: spec for spec in PIPELINE.gold}


def count_activity(events: DataFrame) -> DataFrame:
    """Hourly activity: one row per window, account, region, service and action.

    event_count, error_count (events with an error code), distinct_principals, first_event_at and last_event_at. Exact.
    """
    return _activity(events, "activity_1h")


def count_account_activity(events: DataFrame) -> DataFrame:
    """Daily activity: the measures of count_activity for each day (UTC), account, region and service."""
    return _activity(events, "account_activity_1d")


def _activity(events: DataFrame, subject: str) -> DataFrame:
    grain = _SPECS[subject].grain
    # Counting per principal first makes the distinct count a plain count: hash aggregation, no set of strings per group.
    per_principal = events.groupBy(_window(subject), *grain, "principal_arn").agg(
        F.count("*").alias("event_count"),
        F.count("error_code").alias("error_count"),
        F.min("event_time").alias("first_event_at"),
        F.max("event_time").alias("last_event_at"),
    )
    activity = per_principal.groupBy("window", *grain).agg(
        F.sum("event_count").alias("event_count"),
        F.sum("error_count").alias("error_count"),
        F.count("principal_arn").alias("distinct_principals"),
        F.min("first_event_at").alias("first_event_at"),
        F.max("last_event_at").alias("last_event_at"),
    )
    return activity.select(
        *_window_columns(), *grain, "event_count", "error_count", "distinct_principals", "first_event_at", "last_event_at"
    )


def count_principal_activity(events: DataFrame) -> DataFrame:
    """Hourly activity of each principal: one row per window and principal_arn.

    event_count, denied_count, distinct_services, distinct_source_addresses and distinct_regions (nulls are not counted). Exact.
    """
    kinds = ("event_source", "source_ip_address", "aws_region")
    # The combinations of a principal are few, so the sets below are built from few rows.
    combinations = events.groupBy(_window("principal_activity_1h"), "principal_arn", *kinds).agg(
        F.count("*").alias("event_count"), F.count_if(F.expr(DENIED)).alias("denied_count")
    )
    activity = combinations.groupBy("window", "principal_arn").agg(
        F.sum("event_count").alias("event_count"),
        F.sum("denied_count").alias("denied_count"),
        *[F.size(F.collect_set(kind)).cast("bigint").alias(kind) for kind in kinds],
    )
    return activity.select(
        *_window_columns(),
        "principal_arn",
        "event_count",
        "denied_count",
        F.col("event_source").alias("distinct_services"),
        F.col("source_ip_address").alias("distinct_source_addresses"),
        F.col("aws_region").alias("distinct_regions"),
    )


def count_denied(events: DataFrame) -> DataFrame:
    """Denied events of the last 15 minutes, every 5 minutes: one row per sliding window, account and principal with any."""
    denied = events.where(F.expr(DENIED))
    counted = denied.groupBy(_window("denied_15m"), "account_id", "principal_arn").agg(F.count("*").alias("denied_count"))
    return counted.select(*_window_columns(), "account_id", "principal_arn", "denied_count")


TABLES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "activity_1h": count_activity,
    "principal_activity_1h": count_principal_activity,
    "denied_15m": count_denied,
    "account_activity_1d": count_account_activity,
}
"""GoldSpec.subject to the transform that computes the table from silver rows."""

ACTIVITY_1H_SQL = """
    SELECT window.start AS window_start, window.end AS window_end, to_date(window.start) AS window_date,
           account_id, aws_region, event_source, event_name,
           count(*) AS event_count, count(error_code) AS error_count, count(DISTINCT principal_arn) AS distinct_principals,
           min(event_time) AS first_event_at, max(event_time) AS last_event_at
      FROM {events}
     GROUP BY window(event_time, '1 hour'), account_id, aws_region, event_source, event_name
"""
"""count_activity as SQL; run with `spark.sql(ACTIVITY_1H_SQL, events=frame)`."""


def _window(subject: str) -> Column:
    spec = _SPECS[subject].window
    return F.window("event_time", f"{spec.length_s} seconds", f"{spec.slide_s} seconds")


def _window_columns() -> tuple[Column, ...]:
    return (
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        F.to_date("window.start").alias("window_date"),
    )
