"""The suite of `silver.cloudtrail_events`: each event once, typed, in its time, and every bronze record accounted for.

Formats: AWS CloudTrail User Guide, "CloudTrail record contents". Values there may grow, so those checks are mild.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from expectations.custom.figures import ExpectFigureToAgree, ExpectFigureToBeAtMost, ExpectRowsToAddUpTo
from expectations.custom.rows import (
    ExpectColumnToBeAmong,
    ExpectColumnToBePresent,
    ExpectColumnToMatch,
    ExpectKeyToBeUnique,
    ExpectRowsToSatisfy,
)
from expectations.gx import CRITICAL, INFO, WARNING
from expectations.suite import Suite

REQUIRED = (
    "event_id",
    "event_time",
    "event_date",
    "account_id",  # from here on what gold groups by
    "aws_region",
    "event_source",
    "event_name",
    "principal_arn",
    "_rid",
)
EARLIEST = "2013-01-01 00:00:00Z"  # CloudTrail was announced in November 2013
CATEGORIES = ["Management", "Data", "NetworkActivity", "Insight"]
TYPES = [
    "AwsApiCall",
    "AwsServiceEvent",
    "AwsConsoleAction",
    "AwsConsoleSignIn",
    "AwsCloudTrailInsight",
    "AwsVpceEvent",
]
FEW_RECORDS = 20  # in a batch this small a share says nothing: one odd record of three would stop it

FACTS = (
    "books",  # spec.books.Books of this batch
    "bronze_rows",  # int: rows of bronze in this batch, counted on their own (not books.read)
    "conflicting",  # int: re-deliveries of this batch whose content differs from the event that was kept
)  # and where they are told: "clock_ahead" (timedelta) and, of records read again, "as_of" (datetime): what the parser judged times by


def suite(subject: str, facts: Mapping[str, Any]) -> Suite:
    """The expectations for one batch of first arrivals; `facts` holds FACTS."""
    books = facts.get("books")
    read, written, quarantined = (books.read, books.written + books.held, books.quarantined) if books is not None else (None, None, None)
    quarantine_limit = read // 2 if read is not None and read > FEW_RECORDS else read
    return Suite(
        name=f"silver.cloudtrail_{subject}",
        facts=FACTS,
        expectations=(
            *_identity(),
            *_time(facts.get("clock_ahead", timedelta(days=1)), facts.get("as_of")),
            *_formats(),
            ExpectFigureToAgree(
                counted=facts.get("bronze_rows"),
                expected=read,
                severity=CRITICAL,
                description="every bronze record of the batch was read",
            ),
            ExpectRowsToAddUpTo(
                columns=[],
                expression="count(1)",
                expected=written,
                severity=CRITICAL,
                description="the rows are as many as the books say",
            ),
            ExpectFigureToBeAtMost(
                counted=quarantined,
                limit=quarantine_limit,
                severity=CRITICAL,
                description=f"at most half of a batch of more than {FEW_RECORDS} records is quarantined",
            ),
            ExpectFigureToBeAtMost(
                counted=facts.get("conflicting"), limit=0, severity=INFO, description="no event was delivered again with other content"
            ),
        ),
    )


def _identity() -> tuple[Any, ...]:
    return (
        *[
            # The value checks below let a null through, which this one catches: a null is one failure, never none.
            ExpectColumnToBePresent(columns=[name], severity=CRITICAL, description=f"every event has {name}")
            for name in REQUIRED
        ],
        ExpectKeyToBeUnique(columns=["event_id"], severity=CRITICAL, description="no event_id occurs twice in the batch"),
    )


def _time(clock_ahead: timedelta, as_of: datetime | None) -> tuple[Any, ...]:
    arrived_at = "_ingested_at" if as_of is None else f"greatest(_ingested_at, timestamp'{as_of:%Y-%m-%d %H:%M:%S.%f}Z')"
    seconds = int(clock_ahead.total_seconds())
    return (
        ExpectRowsToSatisfy(
            columns=["event_time"],
            condition=f"event_time is null or event_time >= timestamp'{EARLIEST}'",
            severity=CRITICAL,
            description="no event is older than CloudTrail (2013)",
        ),
        ExpectRowsToSatisfy(
            columns=["event_time", "_ingested_at"],
            condition=f"event_time is null or event_time <= {arrived_at} + interval {seconds} seconds",
            severity=CRITICAL,
            description=f"no event is more than {clock_ahead.total_seconds() / 3600:g} hours in the future of its ingestion",
        ),
        ExpectRowsToSatisfy(
            columns=["event_date", "event_time"],
            # In whole days since 1970, so that the session's time zone has no say.
            condition="event_time is null or event_date is null or unix_date(event_date) = floor(unix_micros(event_time) / 86400000000)",
            severity=CRITICAL,
            description="event_date is the UTC date of event_time",
        ),
    )


def _formats() -> tuple[Any, ...]:
    return (
        ExpectColumnToMatch(
            columns=["account_id"], pattern="[0-9]{12}", nullable=True, severity=WARNING, description="account_id is 12 digits"
        ),
        ExpectColumnToMatch(
            columns=["aws_region"],
            pattern="[a-z]{2,5}(-[a-z]+)+-[0-9]{1,2}",
            nullable=True,
            severity=WARNING,
            description="aws_region looks like us-east-1",
        ),
        ExpectColumnToMatch(
            columns=["event_id"],
            pattern="[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
            nullable=True,
            severity=INFO,
            description="event_id is a UUID",
        ),
        ExpectColumnToBeAmong(
            columns=["event_category"], among=CATEGORIES, nullable=True, severity=INFO, description="event_category is a known one"
        ),
        ExpectColumnToBeAmong(columns=["event_type"], among=TYPES, nullable=True, severity=INFO, description="event_type is a known one"),
    )
