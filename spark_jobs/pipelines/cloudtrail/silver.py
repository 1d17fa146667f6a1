"""Silver of CloudTrail: raw records to typed events, each with the first contract rule it breaks."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE
from spark_jobs.pipelines.cloudtrail.schema import ENGINE_COLUMNS, EVENT_SCHEMA, RECORD_SCHEMA, SILVER_SCHEMA
from spark_jobs.transforms.read_json import read_json

# hh is a 12-hour trap in patterns, so the form is checked here and the value is read without a pattern. 23:59:60 and 24:00:00 are out.
EVENT_TIME = r"\A\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?Z\z"
EARLIEST = "2013-01-01"  # CloudTrail began in November 2013
PARKED = "event_time_in_future"


def parse_events(raw_records: DataFrame) -> DataFrame:
    """Bronze rows to silver columns (SILVER_SCHEMA), `raw`, `_rule`, `_reason` and `_due_at`; one row out for each row in.

    For a row that keeps the contract these four are null (bronze has its text, under the same `_rid`). Else `_rule` names the first rule
    broken, `_reason` says it in a sentence, `raw` is the text, event_time and event_date are null, and the other typed columns may be.
    An event that is more than the pipeline's `clock_ahead` ahead of its arrival is parked: `_due_at` is when it will no longer be. A
    column `_as_of`, where there is one, is the time to compare with in place of `_ingested_at`: when the record is read again.
    Never raises on data. Times are UTC to the microsecond (finer parts are cut); the session's time zone must be UTC.
    """
    parsed = raw_records.withColumn("_found", read_json(F.col("raw"), RECORD_SCHEMA, EVENT_SCHEMA)).withColumn(
        "_event", F.col("_found.record")
    )
    event_time = F.when(F.col("_event.event_time").rlike(EVENT_TIME), F.col("_event.event_time").try_cast("timestamp"))
    timed = parsed.withColumn("_event_time", event_time)
    account_id = F.coalesce(_text("recipient_account_id"), _text("user_identity.account_id"))
    # A time out of range stays out of the typed columns: Python cannot hold the year 0, nor a table a partition for each odd date.
    kept_time = F.when(F.col("_broken").isNull(), F.col("_event_time"))
    own = {
        "event_time": kept_time,
        "event_date": F.to_date(kept_time),
        "account_id": account_id,
        "principal_arn": F.coalesce(
            _text("user_identity.arn"),
            F.concat(F.lit("service:"), _text("user_identity.invoked_by")),
            F.concat(F.lit("account:"), _text("user_identity.account_id")),
            F.lit("unknown"),
        ),
        "_rescued": F.col("_found.rescued"),
        "_content_hash": F.xxhash64("raw"),
        **{name: F.col(name) for name in ENGINE_COLUMNS},
    }
    columns = [own.get(field.name, F.col(f"_event.{field.name}")).alias(field.name, metadata=field.metadata) for field in SILVER_SCHEMA]
    broken = _broken_rule(F.col("_as_of" if "_as_of" in raw_records.columns else "_ingested_at"))
    return timed.withColumn("_broken", broken).select(
        *columns,
        F.when(F.col("_broken").isNotNull(), F.col("raw")).alias("raw"),
        F.col("_broken.rule").alias("_rule"),
        F.col("_broken.reason").alias("_reason"),
        F.when(F.col("_broken.rule") == PARKED, F.col("_event_time") - _interval(PIPELINE.clock_ahead)).alias("_due_at"),
    )


def _interval(length: timedelta) -> Column:
    return F.expr(f"interval {int(length.total_seconds())} seconds")


def _in_words(length: timedelta) -> str:
    """`1 day`, `36 hours`, `90 seconds`: in its largest whole unit."""
    seconds, units = int(length.total_seconds()), {86_400: "day", 3_600: "hour", 60: "minute", 1: "second"}
    size, unit = next((size, unit) for size, unit in units.items() if seconds % size == 0)
    return f"{seconds // size} {unit}{'s' if seconds != size else ''}"


def _broken_rule(arrived_at: Column) -> Column:
    """The first rule broken, as struct<rule, reason>, or null."""
    ahead = _in_words(PIPELINE.clock_ahead)
    time = F.col("_event_time")
    rules: list[tuple[Column, str, Column | str]] = [
        (_text("event_id").isNull(), "missing_event_id", "eventID is missing, so the event has no key."),
        (_text("event_time").isNull(), "missing_event_time", "eventTime is missing."),
        (time.isNull(), "event_time_unparseable", "eventTime is not a UTC time of the form 2024-12-31T23:59:59Z."),
        (
            time > arrived_at + _interval(PIPELINE.clock_ahead),
            PARKED,
            F.concat(F.lit("eventTime "), F.col("_event.event_time"), F.lit(f" is more than {ahead} after the record was taken in.")),
        ),
        (
            time < F.lit(EARLIEST).cast("timestamp"),
            "event_time_too_old",
            F.concat(F.lit("eventTime "), F.col("_event.event_time"), F.lit(f" is before {EARLIEST}; CloudTrail began in 2013.")),
        ),
        (_text("event_name").isNull(), "missing_event_name", "eventName is missing."),
        (_text("event_source").isNull(), "missing_event_source", "eventSource is missing."),
        (_text("aws_region").isNull(), "missing_aws_region", "awsRegion is missing."),
        (
            _text("recipient_account_id").isNull() & _text("user_identity.account_id").isNull(),
            "missing_account",
            "Neither recipientAccountId nor userIdentity.accountId is there, so the event belongs to no account.",
        ),
    ]
    found = F.when(F.col("_found.rule").isNotNull(), F.struct("_found.rule", "_found.reason"))
    for is_broken, rule, reason in rules:
        said = reason if isinstance(reason, Column) else F.lit(reason)
        found = found.when(is_broken, F.struct(F.lit(rule).alias("rule"), said.alias("reason")))
    return found


def _text(field: str) -> Column:
    """A text field of the event; null where it holds nothing but spaces."""
    value = F.col(f"_event.{field}")
    return F.when(F.trim(value) != "", value)
