"""The geometry of the report's charts: numbers in, places out. The template draws them; no text of the data is in here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

WIDTH, HEIGHT = 340, 150
LEFT, RIGHT, TOP, BOTTOM = 46, 6, 8, 20  # room for the numbers of the axes
PLOT_W, PLOT_H = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
WIDEST_BAR = 26.0

Series = Sequence[float | None]


def lines(times: Sequence[str], series: Mapping[str, Series], unit: str = "") -> dict[str, Any]:
    """One line per series over time; a point that is alone is drawn as a dot. A gap stays a gap."""
    top = _top(value for values in series.values() for value in values)
    xs = _places(times)
    drawn = []
    for number, (name, values) in enumerate(series.items()):
        runs: list[list[tuple[float, float]]] = [[]]
        for x, value in zip(xs, values, strict=True):
            if value is None:
                runs.append([])
            else:
                runs[-1].append((x, _y(value, top)))
        path = " ".join("M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in run) for run in runs if len(run) > 1)
        drawn.append({"name": name, "place": number + 1, "path": path, "dots": [run[0] for run in runs if len(run) == 1]})
    return _chart(times, top, unit) | {"lines": drawn, "bars": [], "above": False}


def stacked(times: Sequence[str], series: Mapping[str, Series], unit: str = "") -> dict[str, Any]:
    """A bar per time with a piece per series, the first at the bottom."""
    sums = [sum(values[i] or 0 for values in series.values()) for i in range(len(times))]
    return _bars(times, series, _top(sums), unit)


def bars_and_bound(times: Sequence[str], name: str, values: Series, bound_name: str, bounds: Series, unit: str = "") -> dict[str, Any]:
    """A bar per time, and a line for the bound that was in force, where there was one.

    A bound far above every bar is left out of the scale, or the bars could not be seen: `above` tells.
    """
    highest = max((value for value in values if value is not None), default=0)
    known = [bound for bound in bounds if bound is not None]
    shown = [bound for bound in known if bound <= 4 * highest]
    chart = _bars(times, {name: values}, _top([highest, *shown]), unit)
    within = [bound if bound in shown else None for bound in bounds]
    drawn = lines(times, {bound_name: within}, unit)["lines"] if shown else []
    for line in drawn:
        scaled = [(x, _y(bound, chart["top"])) for x, bound in zip(_places(times), within, strict=True) if bound is not None]
        step = "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in scaled) if len(scaled) > 1 else ""
        line |= {"path": step, "dots": scaled if len(scaled) == 1 else [], "place": 2}
    return chart | {"lines": drawn, "above": bool(known) and not shown}


def _bars(times: Sequence[str], series: Mapping[str, Series], top: float, unit: str) -> dict[str, Any]:
    width = min(WIDEST_BAR, PLOT_W / max(1, len(times)) * 0.8)
    drawn: list[dict[str, Any]] = [{"name": name, "place": number + 1, "boxes": []} for number, name in enumerate(series)]
    for i, x in enumerate(_places(times, half=width / 2)):
        base = 0.0
        for piece, values in zip(drawn, series.values(), strict=True):
            value = values[i] or 0
            height = PLOT_H * value / top
            if value:
                piece["boxes"].append({"x": x - width / 2, "y": _y(base + value, top), "width": width, "height": height})
            base += value
    return _chart(times, top, unit) | {"bars": drawn, "lines": [], "above": False}


def _chart(times: Sequence[str], top: float, unit: str) -> dict[str, Any]:
    ticks = [{"y": _y(top * share, top), "label": short(top * share, unit)} for share in (0, 0.5, 1)]
    ends = [_clock(times[0], times), _clock(times[-1], times)] if len(times) > 1 else [_clock(times[0], times)]
    return {
        "width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "foot": HEIGHT - BOTTOM, "top": top, "ticks": ticks,
        "ends": ends,
    }  # fmt: skip


def short(value: float, unit: str = "") -> str:
    """`1.5 k`, `64 MB`, `0.4 s`: three places at most."""
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size and unit != "s" and unit != "min":
            return f"{_plain(value / size)} {prefix}{unit}"
    return f"{_plain(value)} {unit}".strip()


def _plain(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _top(values: Any) -> float:
    """A number at or above all of them whose half is short too: 1, 2, 4, 6 or 8 times a power of ten."""
    highest = max((value for value in values if value is not None), default=0.0)
    if highest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(highest))
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= highest)


def _y(value: float, top: float) -> float:
    return TOP + PLOT_H * (1 - value / top)


def _places(times: Sequence[str], half: float = 3.0) -> list[float]:
    """From left to right by time, with room for half a bar at both ends; one alone stands in the middle."""
    moments = [datetime.fromisoformat(text).timestamp() for text in times]
    first, last = moments[0], moments[-1]
    if last <= first:
        return [LEFT + PLOT_W / 2] * len(times)
    return [LEFT + half + (PLOT_W - 2 * half) * (moment - first) / (last - first) for moment in moments]


def _clock(text: str, times: Sequence[str]) -> str:
    at, span = datetime.fromisoformat(text), datetime.fromisoformat(times[-1]) - datetime.fromisoformat(times[0])
    return f"{at:%d %b %H:%M}" if span.days or span.seconds > 43_200 else f"{at:%H:%M:%S}"
