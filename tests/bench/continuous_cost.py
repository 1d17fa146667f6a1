"""What continuous runs cost: idling, and a day of them beside 24 hourly runs on the same input."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tests.bench.live_driver import LiveDriver
from tests.bench.live_files import LiveFiles
from tests.bench.measure import Cost
from tests.bench.stage import CACHE, Stage

CORES = 2  # of master local[2]: what a run reserves while it lives
FILES_AN_HOUR, RECORDS = 12, 200  # one account and region, a file every five minutes
DAY_S, LIFETIME_S = 86_400, 50 * 60


def idle_share(driver: LiveDriver, seconds: float) -> float:
    """CPU-seconds per second of a driver for which nothing lands.

    Of each process by itself: a Python worker that ends for want of work takes the account of its whole life with it.
    """
    before, began = driver.cpu_by_process(), time.monotonic()
    time.sleep(seconds)
    spent = sum(cpu_s - before.get(pid, 0.0) for pid, cpu_s in driver.cpu_by_process().items())
    return spent / (time.monotonic() - began)


def day_of_both(hourly_runs: int) -> Iterator[str]:
    """The lines of the comparison. A day is not waited for: it is put together from its measured parts, which are printed."""
    hourly = Cost(0, 0)
    stage, live = _stage("hourly")
    for _ in range(hourly_runs):
        for _ in range(FILES_AN_HOUR):
            live.land(RECORDS)
        cost, said = stage.discover()
        run = stage.submit("run_layers", java_options=str(said["java_options"]), gates=True)
        hourly += Cost(cost.cpu_s + run.cpu_s, cost.wall_s + run.wall_s)
    scale = 24 / hourly_runs
    yield (
        f"24 hourly runs ({hourly_runs} measured, {FILES_AN_HOUR} files of {RECORDS} records each): "
        f"{CORES * hourly.wall_s * scale:,.0f} reserved core-seconds, {hourly.cpu_s * scale:,.0f} CPU-seconds"
    )
    stage, live = _stage("continuous-day")
    began = time.monotonic()
    with LiveDriver(stage) as driver:
        start_cpu_s, start_s = driver.cpu_s(), time.monotonic() - began
        live.land(RECORDS)
        time.sleep(30)
        idle = idle_share(driver, 60)
        before, began = driver.cpu_s(), time.monotonic()
        for _ in range(FILES_AN_HOUR):  # one at a time, as they land: each is a batch of its own in each layer
            driver.landed(*live.land(RECORDS))
            driver.until_taken()
        per_file = (driver.cpu_s() - before - idle * (time.monotonic() - began)) / FILES_AN_HOUR
    starts = DAY_S / LIFETIME_S
    parts = {
        "idling": idle * DAY_S,
        f"{24 * FILES_AN_HOUR} files": per_file * 24 * FILES_AN_HOUR,
        f"{starts:.0f} starts": start_cpu_s * starts,
    }
    yield (
        f"One continuous day on the same input: {CORES * DAY_S:,.0f} reserved core-seconds, {sum(parts.values()):,.0f} CPU-seconds "
        f"({', '.join(f'{what} {cpu_s:,.0f}' for what, cpu_s in parts.items())}; a start takes {start_s:.0f} s)"
    )


def _stage(name: str) -> tuple[Stage, LiveFiles]:
    stage = Stage(CACHE / name)
    stage.clear()
    return stage, LiveFiles(stage.folder / "landing", stage.folder / "outside")
