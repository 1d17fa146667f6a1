"""Counts, sizes and times as a person reads them."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 file`, `2,000 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def bytes_in_words(count: int) -> str:
    """A number of bytes in decimal units: `1.3 MB`."""
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:,.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"


def minutes_in_words(minutes: float) -> str:
    """A length of time in its two largest units: `3 d 4 h`."""
    whole = round(minutes)
    if whole < 60:
        return f"{minutes:.0f} min"
    hours, rest = divmod(whole, 60)
    return f"{hours} h {rest} min" if hours < 48 else f"{hours // 24:,} d {hours % 24} h"


def length(seconds: float) -> str:
    """`14 s`, `3 min`, `2 h 5 min`."""
    return f"{seconds:.0f} s" if seconds < 90 else minutes_in_words(seconds / 60)


def ago(seconds: float) -> str:
    return f"{length(seconds)} ago"
