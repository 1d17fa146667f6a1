"""The suites of `gold.cloudtrail_*`: each window and group once, in its place, and adding up to silver.

What every gold table must satisfy follows from its declaration; `_OWN` adds what is special about one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from expectations.custom.figures import ExpectRowsToAddUpTo
from expectations.custom.rows import ExpectColumnToBeAmong, ExpectColumnToBePresent, ExpectKeyToBeUnique, ExpectRowsToSatisfy
from expectations.gx import CRITICAL
from expectations.suite import Suite
from spark_jobs.spec.pipeline import FirstSeenSpec, GoldSpec

FACTS = (
    "spec",  # spec.pipeline.GoldSpec of the table
    "expected_sum",  # int: silver rows at the named version that the table counts, once per window they are in
    "source_rows",  # int: silver rows at that version in the touched windows, whether the table counts them or not
)

FIRST_SEEN_FACTS = (
    "spec",  # spec.pipeline.FirstSeenSpec of the table
    "expected_rows",  # int: the values looked at that were not known as early or earlier
    "source_rows",  # int: the values looked at
)

_MICROS = 1_000_000


def suite(subject: str, facts: Mapping[str, Any]) -> Suite:
    """The expectations for one recomputation of a gold table; `facts` holds FACTS."""
    spec: GoldSpec | FirstSeenSpec | None = facts.get("spec")
    name = f"gold.cloudtrail_{subject}"
    if isinstance(spec, FirstSeenSpec):
        return Suite(name=name, facts=FIRST_SEEN_FACTS, expectations=_first_seen(spec, facts))
    if spec is None:
        return Suite(name=name, facts=FACTS, expectations=())
    return Suite(name=name, facts=FACTS, expectations=(*_grain(spec), *_windows(spec), *_counts(spec, facts), *_OWN.get(subject, tuple)()))


def _grain(spec: GoldSpec) -> tuple[Any, ...]:
    key = ["window_start", *spec.grain]
    return (
        *[ExpectColumnToBePresent(columns=[name], severity=CRITICAL, description=f"every row has {name}") for name in key],
        ExpectKeyToBeUnique(columns=key, severity=CRITICAL, description="each window has each group once"),
    )


def _windows(spec: GoldSpec) -> tuple[Any, ...]:
    length, slide = spec.window.length_s, spec.window.slide_s
    return (
        ExpectRowsToSatisfy(
            columns=["window_start", "window_end"],
            condition=f"window_start is null or unix_micros(window_end) - unix_micros(window_start) = {length * _MICROS}",
            severity=CRITICAL,
            description=f"a window is {length} seconds long",
        ),
        ExpectRowsToSatisfy(
            columns=["window_start"],
            condition=f"window_start is null or unix_micros(window_start) % {slide * _MICROS} = 0",
            severity=CRITICAL,
            description=f"a window starts on a multiple of {slide} seconds",
        ),
        ExpectRowsToSatisfy(
            columns=["window_date", "window_start"],
            condition="window_start is null or unix_date(window_date) = floor(unix_micros(window_start) / 86400000000)",
            severity=CRITICAL,
            description="window_date is the UTC date of window_start",
        ),
    )


def _counts(spec: GoldSpec, facts: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        ExpectRowsToSatisfy(
            columns=[spec.counts],
            condition=f"{spec.counts} > 0",
            severity=CRITICAL,
            description=f"{spec.counts} is positive: a group without events has no row",
        ),
        ExpectRowsToAddUpTo(
            columns=[spec.counts],
            expression=f"coalesce(sum({spec.counts}), 0)",
            expected=facts.get("expected_sum"),
            severity=CRITICAL,
            description=f"{spec.counts} adds up to the silver rows of these windows",
        ),
    )


def _first_seen(spec: FirstSeenSpec, facts: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        *[
            ExpectColumnToBePresent(columns=[name], severity=CRITICAL, description=f"every row has {name}")
            for name in (*spec.grain, "first_event_at", "event_id", "_rid")
        ],
        ExpectKeyToBeUnique(columns=list(spec.grain), severity=CRITICAL, description="each kind has each value once"),
        ExpectColumnToBeAmong(
            columns=["kind"],
            among=[kind for kind, _ in spec.kinds],
            nullable=True,
            severity=CRITICAL,
            description="kind is a declared one",
        ),
        ExpectRowsToAddUpTo(
            columns=["value"],
            expression="count(*)",
            expected=facts.get("expected_rows"),
            severity=CRITICAL,
            description="the rows are the values that were not known as early",
        ),
    )


def _part_of_events(part: str) -> Any:
    return ExpectRowsToSatisfy(
        columns=[part, "event_count"],
        condition=f"{part} between 0 and event_count",
        severity=CRITICAL,
        description=f"{part} is between 0 and event_count",
    )


def _activity() -> tuple[Any, ...]:
    return (
        _part_of_events("error_count"),
        _part_of_events("distinct_principals"),
        ExpectRowsToSatisfy(
            columns=["first_event_at", "last_event_at", "window_start", "window_end"],
            condition="window_start is null or (window_start <= first_event_at and last_event_at < window_end)",
            severity=CRITICAL,
            description="the first and the last event lie in the window",
        ),
        ExpectRowsToSatisfy(
            columns=["first_event_at", "last_event_at"],
            condition="first_event_at <= last_event_at",
            severity=CRITICAL,
            description="the first event is not after the last",
        ),
    )


def _principal_activity() -> tuple[Any, ...]:
    parts = ("denied_count", "distinct_services", "distinct_source_addresses", "distinct_regions")
    return tuple(_part_of_events(part) for part in parts)


_OWN = {"activity_1h": _activity, "principal_activity_1h": _principal_activity, "account_activity_1d": _activity}
