"""Instants and lengths of time as a sentence tells them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_UNITS = (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1))


def words(length: timedelta) -> str:
    """A length of time in its two largest units: `45 s`, `12 min`, `3 h 5 min`, `29 d 4 h`."""
    whole = round(length.total_seconds())
    for unit, size, smaller, part in _UNITS:
        if whole >= size:
            large, rest = divmod(whole, size)
            return f"{large} {unit} {rest // part} {smaller}" if rest // part else f"{large} {unit}"
    return f"{whole} s"


def clock(at: datetime | None) -> str:
    """`2024-05-01 12:30:05 UTC`; empty for none."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if at else ""
