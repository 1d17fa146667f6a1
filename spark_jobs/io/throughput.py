"""How long this installation takes: a fixed start-up and a cost per landed byte, fitted to `_ops.runs`.

Two regimes, as the drivers are tuned: small (at most `small_mb` pending) and large. A regime that was never measured here takes the
shipped figures, multiplied by how much slower or faster this machine was in the regime that was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Any

import pyarrow.compute as pc

from spark_jobs.io.ops import Ops
from spark_jobs.spec.backfill import What
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import LAYERS, RUNS

# The jobs whose cost says what each kind of backfill takes, and that kind's share of a load's cost per byte, as shipped.
MEASURED: dict[What, tuple[str, ...]] = {
    "load": ("run_layers", "backfill_load"), "replay": ("backfill_replay",), "recompute": ("backfill_recompute",),
}  # fmt: skip
SHARE: dict[What, float] = {"load": 1.0, "replay": 0.6, "recompute": 0.3}
MOST_RUNS = 200  # the newest; what the machine did a year ago says little
SPREAD = 2.0  # sizes must differ by this factor before a slope is taken from them
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Line:
    """Seconds = fixed_s + per_mb_s × landed megabytes."""

    fixed_s: float
    per_mb_s: float

    def at(self, size: int) -> float:
        return self.fixed_s + self.per_mb_s * size / MB

    def times(self, factor: float) -> Line:
        return Line(self.fixed_s * factor, self.per_mb_s * factor)


# The reference set (200 files, 39 MB landed) and hourly runs of two files, gates on, on two cores.
SHIPPED = {
    ("wall_s", True): Line(14.0, 2.5), ("wall_s", False): Line(20.0, 0.55),
    ("cpu_s", True): Line(18.0, 4.0), ("cpu_s", False): Line(40.0, 0.75),
}  # fmt: skip
SHIPPED_RECORDS_PER_BYTE = 1 / 195  # 200,000 records in 39 MB


@dataclass(frozen=True, slots=True)
class Throughput:
    """`basis` says what the figures rest on, as part of a sentence."""

    lines: dict[tuple[str, bool], Line]
    records_per_byte: float
    is_density_measured: bool
    small_bytes: int
    runs: int
    basis: str

    @property
    def is_measured(self) -> bool:
        return self.runs > 0

    def predict(self, sizes: Sequence[int]) -> tuple[float, float]:
        """Wall and CPU seconds of one process after another, each taking this many landed bytes."""
        wall, cpu = (sum(self.lines[measure, size <= self.small_bytes].at(size) for size in sizes) for measure in ("wall_s", "cpu_s"))
        return round(wall, 1), round(cpu, 1)


def throughput(settings: Settings, pipeline: str, what: What = "load") -> Throughput:
    """From the newest runs of the same kind of work; records per byte always from those that read landed files."""
    rows = _runs(settings, pipeline, MEASURED[what])
    loads = rows if what == "load" else _runs(settings, pipeline, MEASURED["load"])
    shipped = {kind: Line(line.fixed_s, line.per_mb_s * SHARE[what]) for kind, line in SHIPPED.items()}
    lines = {kind: _line(rows, kind, shipped) for kind in SHIPPED}
    read, landed = sum(row["records"] or 0 for row in loads), sum(row["bytes"] for row in loads)
    per_byte = read / landed if read else SHIPPED_RECORDS_PER_BYTE
    basis = f"measured on {len(rows)} runs of this installation" if rows else "not measured here yet: the figures as shipped"
    return Throughput(lines, per_byte, bool(read), settings.small_mb * MB, len(rows), basis)


def _runs(settings: Settings, pipeline: str, jobs: Sequence[str]) -> list[dict[str, Any]]:
    whole = pc.field("layers") == ",".join(LAYERS)  # one that a gate stopped, or that failed, would make the next look cheap
    wanted = (pc.field("pipeline") == pipeline) & pc.field("job").isin(jobs) & (pc.field("bytes") > 0) & whole
    rows = Ops(settings).read(RUNS, filter=wanted).sort_by([("finished_at", "descending")])
    return list(rows.slice(0, MOST_RUNS).to_pylist())


def _line(rows: Sequence[dict[str, Any]], kind: tuple[str, bool], shipped: Mapping[tuple[str, bool], Line]) -> Line:
    measure, is_small = kind
    points = [(row["bytes"] / MB, row[measure]) for row in rows if row["is_small"] == is_small]
    sizes = [size for size, _ in points]
    if len(points) >= 3 and max(sizes) >= SPREAD * min(sizes) and (fitted := _theil_sen(points)):
        return fitted
    alike = [row for row in rows if row["is_small"] == is_small] or rows
    if not alike:
        return shipped[kind]
    return shipped[kind].times(median(row[measure] / shipped[measure, row["is_small"]].at(row["bytes"]) for row in alike))


def _theil_sen(points: Sequence[tuple[float, float]]) -> Line | None:
    """The median of all slopes, then of all intercepts: a run on a busy machine does not move it. None when the machine was too uneven."""
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2) if abs(b[0] - a[0]) > 0.2 * max(a[0], b[0])]
    if not slopes or (slope := median(slopes)) < 0:
        return None
    fixed = median(seconds - slope * size for size, seconds in points)
    return Line(fixed, slope) if fixed >= 0 else None
