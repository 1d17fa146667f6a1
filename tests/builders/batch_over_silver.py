"""Gold once more, from silver's rows in plain Python: what the tables must be, whatever order the events came in."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from spark_jobs.io.work import named_silver_version
from spark_jobs.spec.pipeline import Cadence
from tests.builders.stack import Stack

Row = dict[str, Any]
Table = dict[tuple[Any, ...], tuple[Any, ...]]  # key columns to measures

DENIAL = re.compile("AccessDenied|Unauthorized|Forbidden|NotAuthorized|AuthFailure", re.IGNORECASE)
_MEASURES = {
    "gold.cloudtrail_activity_1h": (
        ("account_id", "aws_region", "event_source", "event_name"),
        ("event_count", "error_count", "distinct_principals", "first_event_at", "last_event_at"),
    ),
    "gold.cloudtrail_principal_activity_1h": (
        ("principal_arn",), ("event_count", "denied_count", "distinct_services", "distinct_source_addresses", "distinct_regions"),
    ),
    "gold.cloudtrail_denied_15m": (("account_id", "principal_arn"), ("denied_count",)),
    "gold.cloudtrail_account_activity_1d": (
        ("account_id", "aws_region", "event_source"),
        ("event_count", "error_count", "distinct_principals", "first_event_at", "last_event_at"),
    ),
}  # fmt: skip
_KINDS = ("event_source", "source_ip_address", "aws_region")
_EVENT = ("event_time", "account_id", "aws_region", "event_source", "event_name", "principal_arn", "error_code", "source_ip_address")


def assert_gold_is_a_batch_over_silver(stack: Stack, *cadences: Cadence, pending: bool = False) -> int:
    """Each gold table of the cadences (default hourly) equals the computation below over silver at the version that it names.

    Returns how many windows there are.
    """
    rows = 0
    for spec in (spec for cadence in cadences or ("hourly",) for spec in stack.pipeline.gold_of(cadence)):
        table = stack.pipeline.gold_table(spec)
        version = named_silver_version(stack.settings, stack.pipeline, table)
        if version is None:
            assert pending or not stack.rows(str(stack.pipeline.silver_table), ["event_id"]), f"{table} was never computed"
            continue
        if not pending:
            assert stack.arrow(str(stack.pipeline.silver_table), _EVENT).num_rows == len(_silver_at(stack, version)), (
                f"{table} is behind silver"
            )
        expected = EXPECTED[spec.subject](_silver_at(stack, version))
        grain, measures = _MEASURES[str(table)]
        published = stack.rows(str(table))
        found = {tuple(row[name] for name in ("window_start", *grain)): tuple(row[name] for name in measures) for row in published}
        assert len(found) == len(published), f"{table} holds a group twice"
        assert found == expected, f"{table} differs in {sorted(map(str, found.items() ^ expected.items()))[:6]}"
        for row in published:
            assert row["window_end"] - row["window_start"] == timedelta(seconds=spec.window.length_s)
            assert row["window_date"] == row["window_start"].date()
        rows += len(found)
    if "daily" in cadences:
        rows += _assert_first_seen(stack)
    return rows


def _assert_first_seen(stack: Stack) -> int:
    spec = stack.pipeline.first_seen
    table = stack.pipeline.gold_table(spec)
    version = named_silver_version(stack.settings, stack.pipeline, table)
    assert version is not None, f"{table} was never computed"
    events = stack.arrow(str(stack.pipeline.silver_table), version=version).to_pylist()
    expected: dict[tuple[str, str], tuple[Any, ...]] = {}
    for event in sorted(events, key=lambda one: (one["event_time"], one["event_id"]), reverse=True):  # the first one writes last
        shown = tuple(event[name] for name in ("event_time", "event_id", *spec.keeps))
        expected |= {(kind, event[column]): shown for kind, column in spec.kinds if event[column] is not None}
    published = stack.rows(str(table))
    names = ("first_event_at", "event_id", *spec.keeps)
    found = {(row["kind"], row["value"]): tuple(row[name] for name in names) for row in published}
    assert len(found) == len(published), f"{table} holds a value twice"
    assert found == expected, f"{table} differs in {sorted(map(str, found.items() ^ expected.items()))[:6]}"
    return len(found)


def _silver_at(stack: Stack, version: int) -> list[Row]:
    return stack.arrow(str(stack.pipeline.silver_table), _EVENT, version=version).to_pylist()


def _activity(events: list[Row]) -> Table:
    return _counted(events, lambda e: (_hour(e), e["account_id"], e["aws_region"], e["event_source"], e["event_name"]))


def _account_activity(events: list[Row]) -> Table:
    return _counted(events, lambda e: (_hour(e).replace(hour=0), e["account_id"], e["aws_region"], e["event_source"]))


def _counted(events: list[Row], key_of: Callable[[Row], tuple[Any, ...]]) -> Table:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for event in events:
        groups[key_of(event)].append(event)
    return {
        key: (
            len(of), sum(e["error_code"] is not None for e in of), len({e["principal_arn"] for e in of} - {None}),
            min(e["event_time"] for e in of), max(e["event_time"] for e in of),
        )
        for key, of in groups.items()
    }  # fmt: skip


def _principals(events: list[Row]) -> Table:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for event in events:
        groups[_hour(event), event["principal_arn"]].append(event)
    return {
        key: (
            len(of), sum(map(_is_denied, of)), *(len({e[name] for e in of} - {None}) for name in _KINDS),
        )
        for key, of in groups.items()
    }  # fmt: skip


def _denied(events: list[Row]) -> Table:
    counted: dict[tuple[Any, ...], int] = defaultdict(int)
    for event in filter(_is_denied, events):
        five = event["event_time"].replace(minute=event["event_time"].minute // 5 * 5, second=0, microsecond=0)
        for back in (0, 5, 10):
            counted[_utc(five - timedelta(minutes=back)), event["account_id"], event["principal_arn"]] += 1
    return {key: (count,) for key, count in counted.items()}


EXPECTED = {
    "activity_1h": _activity, "principal_activity_1h": _principals, "denied_15m": _denied, "account_activity_1d": _account_activity,
}  # fmt: skip


def _hour(event: Row) -> datetime:
    return _utc(event["event_time"].replace(minute=0, second=0, microsecond=0))


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


def _is_denied(event: Row) -> bool:
    return bool(event["error_code"] and DENIAL.search(event["error_code"]))
