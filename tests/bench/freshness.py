"""`python -m tests.bench.freshness [--quick] [--minutes M]`: how fresh a continuous pipeline is, what it costs, and what hourly runs cost.

A driver of its own process takes files of 1,000 records that land at 25, 50 and 75 % of what it can take. Freshness is the time from the
moment a file is there to the commit that has its rows; batches in which Delta writes a checkpoint are among them. Fails only when
something does not run.
"""

from __future__ import annotations

import argparse
import statistics
import time

from spark_jobs.spec.settings import load_settings
from tests.bench import machine
from tests.bench.continuous_cost import day_of_both, idle_share
from tests.bench.live_driver import LiveDriver
from tests.bench.live_files import LiveFiles
from tests.bench.stage import CACHE, STATE, Stage

RECORDS = 1000  # per file, as in the reference set
SHARES = (0.25, 0.50, 0.75)
REACH = {"silver": (15.0, 30.0)}  # seconds at the 10 s trigger: p50, p95
GATES_REACH, IDLE_REACH, GROWTH_REACH = 0.20, 0.02, 0.05


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.freshness", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two minutes per share, one of idling, three hourly runs")
    parser.add_argument("--minutes", type=float, default=30, help="how long files land at each share (default 30)")
    parser.add_argument("--small", type=int, default=0, metavar="FILES", help="only so many small files, one every few seconds, and idling")
    parser.add_argument("--rate", type=float, default=0, help="only at this rate, in records per second")
    options = parser.parse_args()
    minutes = 2.0 if options.quick else options.minutes
    for line in machine.describe(load_settings(home=STATE)):
        print(line)
    print(f"Load      {machine.load()} (1, 5, 15 minutes) before the first file\n", flush=True)
    if options.small:
        _few_files(options.small)
        return 0
    if options.rate:
        _at("Asked for", options.rate, minutes)
        return 0
    rate = _throughput(files=40 if options.quick else 200)
    for share in SHARES:
        _at(f"{share:.0%} of it", share * rate, minutes)
    _at("The rate at which gates are judged", 1000, min(minutes, 10))
    _idle(60)
    print()
    for line in day_of_both(hourly_runs=3 if options.quick else 24):
        print(line, flush=True)
    return 0


def _stage(name: str) -> tuple[Stage, LiveFiles]:
    stage = Stage(CACHE / name)
    stage.clear()
    return stage, LiveFiles(stage.folder / "landing", stage.folder / "outside")


def _few_files(count: int) -> None:
    stage, files = _stage("few")
    with LiveDriver(stage) as driver:
        _warm_up(driver, files)
        print(f"Idle: {idle_share(driver, 60):.2%} of a core over 60 s (reach ≤ {IDLE_REACH:.0%}); load {machine.load()}", flush=True)
        for number in range(count):
            driver.landed(*files.land(50))
            time.sleep(3 + number * 7 % 5)  # at no fixed place within the trigger's 10 s
        driver.until_taken()
    _say_freshness(f"{count} files of 50 records, one every 5 s", driver)


def _throughput(files: int) -> float:
    """Records per second from landing to silver, with gates, of a driver that is warm and has more than it can take."""
    stage, live = _stage("throughput")
    with LiveDriver(stage) as driver:
        _warm_up(driver, live, records=RECORDS)
        began = time.time()
        for _ in range(files):
            driver.landed(*live.land(RECORDS))
        landing_s = time.time() - began
        driver.until_taken()
        last = max(driver.silver_at().values())
    rate = files * RECORDS / (last - began)
    print(
        f"Warm throughput: {rate:,.0f} records/s ({files} files of {RECORDS}, landed within {landing_s:.0f} s; load {machine.load()})",
        flush=True,
    )
    return rate


def _at(what: str, rate: float, minutes: float) -> None:
    stage, live = _stage("rate")
    every_s = RECORDS / rate
    with LiveDriver(stage) as driver:
        _warm_up(driver, live, records=RECORDS)
        driver.watch_memory()
        next_at = time.monotonic()
        end_at = next_at + minutes * 60
        while next_at < end_at:
            driver.landed(*live.land(RECORDS))
            next_at += every_s
            time.sleep(max(0.0, next_at - time.monotonic()))
        driver.until_taken()
    _say_freshness(f"{what}: {rate:,.0f} records/s for {minutes:g} min", driver)
    first, last = driver.memory_mb()
    print(f"    memory {first:,.0f} MB at first, {last:,.0f} MB at last: {last / first - 1:+.1%} (reach ≤ {GROWTH_REACH:.0%} over 60 min)")
    for query, pace in driver.answer.get("pace", {}).items():
        gates, each = pace["gate_seconds"] / max(0.01, pace["seconds"]), pace["seconds"] / max(1, pace["batches"])
        print(f"    {query}: {pace['batches']:.0f} batches, {each:.1f} s each, gates {gates:.0%} of it (reach ≤ {GATES_REACH:.0%})")


def _idle(seconds: float) -> None:
    stage, live = _stage("idle")
    with LiveDriver(stage) as driver:
        _warm_up(driver, live)
        share = idle_share(driver, seconds)
    print(f"Idle: {share:.2%} of a core over {seconds:.0f} s (reach ≤ {IDLE_REACH:.0%}); load {machine.load()}", flush=True)


def _warm_up(driver: LiveDriver, live: LiveFiles, records: int = 50) -> None:
    """Three files through all layers, which are no part of any figure."""
    for _ in range(3):
        driver.landed(*live.land(records))
        driver.until_taken()
    driver.forget()


def _say_freshness(what: str, driver: LiveDriver) -> None:
    print(f"{what}; load {machine.load()}")
    for layer, seconds in driver.freshness().items():
        ordered = sorted(seconds)
        p50, p95, p99 = (ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.50, 0.95, 0.99))
        reach = f"  (reach p50 ≤ {REACH[layer][0]:.0f}, p95 ≤ {REACH[layer][1]:.0f})" if layer in REACH else ""
        mean = statistics.fmean(ordered)
        print(
            f"    {layer:6} {len(ordered):6,} files: p50 {p50:5.1f} s, p95 {p95:5.1f} s, p99 {p99:5.1f} s, max {ordered[-1]:5.1f} s, "
            f"mean {mean:5.1f} s{reach}",
            flush=True,
        )


if __name__ == "__main__":
    raise SystemExit(main())
