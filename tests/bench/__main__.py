"""`python -m tests.bench [--quick] [-n RUNS] [--only WORD]`: measure, and print one table. Fails only when something does not run."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections import defaultdict

from spark_jobs.spec.settings import load_settings
from tests.bench import machine
from tests.bench.scenarios import Figure, Scenarios
from tests.bench.stage import STATE

RATIOS = (
    ("warm session, gates off, per set", "plain Spark batch, warm, per set"),
    ("warm session, gates off, per set", "chdb, warm, per set"),
    ("reference set, cold, three layers in one submit", "plain Spark batch, cold"),
    ("  of that, all gates", "warm session, with gates, per set"),
    *((f"one hour, {kind} × {factor}", "one hour, history × 1") for kind in ("rows", "ledger", "versions") for factor in (10, 100)),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="CPU-seconds, wall time and memory on a seeded reference set."
    )
    parser.add_argument("-n", "--runs", type=int, default=3, help="how often each figure is measured; the median is printed (default 3)")
    parser.add_argument("--quick", action="store_true", help="measure each figure once")
    parser.add_argument("--only", default="", help="only scenarios whose name contains this; the reference set is always the first")
    options = parser.parse_args()
    for line in machine.describe(load_settings(home=STATE)):
        print(line)
    print(f"Load      {machine.load()} (1, 5, 15 minutes) before the first run\n", flush=True)
    found: dict[str, list[Figure]] = defaultdict(list)
    scenarios = Scenarios()
    wanted = [one for number, one in enumerate(scenarios.all()) if not number or options.only in one.__name__]
    for turn in range(1 if options.quick else options.runs):
        for measure_once in wanted:
            try:
                figures = measure_once()
            except subprocess.CalledProcessError as fault:
                print(f"{measure_once.__name__} failed with exit code {fault.returncode}:\n{fault.stderr}", file=sys.stderr)
                return 1
            for figure in figures:
                found[figure.name].append(figure)
            print(f"run {turn + 1}, load {machine.load()}: {figures[0].name}: {figures[0].cpu_s:.1f} CPU-s", file=sys.stderr, flush=True)
    _print_table(found)
    return 0


def _print_table(found: dict[str, list[Figure]]) -> None:
    print(f"{'median of ' + str(max(map(len, found.values()))) + ' runs':58}{'CPU-s':>8}{'wall s':>8}{'peak MB':>9}{'reach':>8}")
    middle: dict[str, float] = {}
    for name, figures in found.items():
        middle[name] = statistics.median(figure.cpu_s for figure in figures)
        wall_s = statistics.median(figure.wall_s for figure in figures)
        peaks = [figure.peak_mb for figure in figures if figure.peak_mb]
        reach = figures[-1].reach
        said = [f"{wall_s:8.1f}" if wall_s else " " * 8, f"{max(peaks):9,.0f}" if peaks else " " * 9]
        said.append(f"{'≤ ' + format(reach, '.0f' if reach >= 3 else '.1f'):>8}" if reach else "")
        print(f"{name:58}{middle[name]:8.1f}{''.join(said)}")
    print()
    for one, other in RATIOS:
        if one in middle and other in middle:
            print(f"{one.strip()} ÷ {other}: {middle[one] / middle[other]:.2f}")
    print(
        "\nCPU-s: user and system time of the driver's Python, the JVM and the Python workers, from the kernel's accounts of ended\n"
        "processes. peak MB: the largest sum of all processes' proportional memory at one moment, sampled. Other work on the machine\n"
        "costs CPU-s too (shared caches and cores), so compare within one report."
    )


if __name__ == "__main__":
    sys.exit(main())
