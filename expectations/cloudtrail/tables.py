"""The suite over whole tables, once a day: what no single batch can show, and what is too dear to ask of each.

The rows are silver's keys and dates, all of them; the facts were counted from the tables themselves, never taken from the books.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from expectations.custom.figures import ExpectFigureToAgree, ExpectFigureToBeAtMost, ExpectFigureToBeWithin
from expectations.custom.rows import ExpectKeyToBeUnique, ExpectKeyToStandInOnePlace
from expectations.gx import CRITICAL, INFO, WARNING
from expectations.suite import Suite

FACTS = (
    "records",  # int: records in the files that were read on the day, as their readings say
    "in_bronze",  # int: of them, rows of bronze, its quarantine and its held rows
    "bronze_rows",  # int: rows of bronze of these files
    "in_silver",  # int: of them, rows of silver, quarantine, duplicates, held, and those that silver has not read yet
    "gold",  # {table name: (the sum of its counts, the silver rows of these windows)} on the dates that these files brought events for
    "volume",  # {"events": on the day, "low", "high": the band of the days before, "not_judged": why not, or ""}
    "event_age_minutes",  # int: of the newest event in silver
    "arrival_age_minutes",  # int: of the newest landed file
    "fresh_minutes",  # int: what the pipeline declares
)


def suite(subject: str, facts: Mapping[str, Any]) -> Suite:
    """The expectations for all tables of the pipeline as they stand; `facts` holds FACTS."""
    gold, volume = facts.get("gold") or {}, facts.get("volume") or {}
    return Suite(
        name=f"tables.cloudtrail_{subject}",
        facts=FACTS,
        expectations=(
            ExpectKeyToBeUnique(
                columns=["event_id", "event_date"], severity=CRITICAL, description="no event_id occurs twice on one date of the whole table"
            ),
            ExpectKeyToStandInOnePlace(
                key=["event_id"], columns=["event_id", "event_date"], severity=CRITICAL, description="no event_id occurs under two dates"
            ),
            ExpectFigureToAgree(
                counted=facts.get("in_bronze"),
                expected=facts.get("records"),
                severity=CRITICAL,
                description="the records of the day's files are in bronze, its quarantine or held",
            ),
            ExpectFigureToAgree(
                counted=facts.get("in_silver"),
                expected=facts.get("bronze_rows"),
                severity=CRITICAL,
                description="the day's bronze rows are in silver, quarantine, duplicates or held, or wait to be read",
            ),
            *[
                ExpectFigureToAgree(
                    counted=counted,
                    expected=expected,
                    severity=CRITICAL,
                    description=f"{table} adds up to silver on the dates that the day brought events for",
                )
                for table, (counted, expected) in sorted(gold.items())
            ],
            ExpectFigureToBeWithin(
                counted=volume.get("events"),
                low=volume.get("low"),
                high=volume.get("high"),
                not_judged=volume.get("not_judged", ""),
                severity=WARNING,
                description="the day has as many events as the 14 days before let expect",
            ),
            ExpectFigureToBeAtMost(
                counted=facts.get("arrival_age_minutes"),
                limit=facts.get("fresh_minutes"),
                minutes=True,
                severity=WARNING,
                description="the newest file is as fresh as declared",
            ),
            ExpectFigureToBeAtMost(
                counted=facts.get("event_age_minutes"),
                limit=facts.get("fresh_minutes"),
                minutes=True,
                severity=INFO,
                description="the newest event is as fresh as declared",
            ),
        ),
    )
