"""`python -m tests.soak [--minutes 40] [--seed N] [--under stream|up]`: a storm, then all invariants. Exit code 1 when one is broken."""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import mkdtemp

import psutil

from tests.builders.disturbed import processes_of
from tests.builders.stack import Stack
from tests.soak.disturbances import Disturbances
from tests.soak.landing_load import LandingLoad
from tests.soak.readers import Reader
from tests.soak.schedule import LANDINGS, Happening, schedule
from tests.soak.services import Airflow, Command, Service
from tests.soak.verdict import broken, wait_for_driver, wait_until_caught_up

# A file that may heal is read once: its next reading is ten minutes away, and a soak can be shorter.
SETTINGS = {"lease_ttl_s": 10, "lifetime_min": 4, "retry_attempts": 1, "gold_trigger": "every 10 seconds"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=40, help="how long the storm lasts (default 40, at least 3)")
    parser.add_argument("--seed", type=int, default=None, help="play the schedule of this seed again (default: a new one)")
    parser.add_argument("--under", choices=["stream", "up"], default="stream", help="who keeps the run alive: the command or Airflow")
    parser.add_argument("--folder", default="", help="where the lake is made (default: a temporary folder, removed when all is well)")
    options = parser.parse_args()
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    folder = Path(options.folder or mkdtemp(prefix="assay-soak-"))
    plan = schedule(seed, max(3.0, options.minutes))
    print(f"Seed {seed}, {options.minutes:g} minutes under {options.under}, lake in {folder}. Again: make soak SEED={seed}", flush=True)

    stack = Stack(folder, **SETTINGS)
    service: Service = Command(stack, folder / "service.log") if options.under == "stream" else Airflow(stack, folder / "home")
    try:
        faults = storm(stack, service, plan)
    finally:
        for process in {*processes_of(stack), *service.family()}:  # none is left, unless the soak itself was stopped
            with suppress(psutil.Error):
                process.kill()
    for fault in faults:
        print(f"BROKEN: {fault}")
    print(f"Seed {seed}: {f'{len(faults)} invariants are broken; the lake is kept in {folder}' if faults else 'all invariants hold'}.")
    if not faults and not options.folder:
        shutil.rmtree(folder)
    return 1 if faults else 0


def storm(stack: Stack, service: Service, plan: list[Happening]) -> list[str]:
    """Let it all happen; a sentence for each invariant that is broken afterwards."""
    load, reader, disturbances = LandingLoad(stack.landing), Reader(stack), Disturbances(stack, service)
    recoveries = Recoveries(stack)

    def tend() -> None:
        service.tend()
        disturbances.tend()

    reader.start()
    wait_for_driver(stack, tend)
    began = time.monotonic()
    for happening in plan:
        while time.monotonic() - began < happening.at_s:
            tend()
            recoveries.look()
            time.sleep(0.2)
        if happening.what in LANDINGS:
            said = load.land(happening.what, happening.seed)
        else:
            said = disturbances.disturb(happening.what, happening.seed)
            recoveries.begin()
        print(f"{happening}: {said}", flush=True)
    load.finish()
    disturbances.settle()
    faults = []
    try:
        print(f"Caught up {wait_until_caught_up(stack, tend):.0f} s after the storm.", flush=True)
    except Exception as fault:  # told with the rest
        faults.append(f"it did not catch up: {type(fault).__name__}: {str(fault).splitlines()[0]}")
    service.stop()
    reader.stop()
    faults += broken(stack, service, load, reader)
    happened = Counter(one.what for one in plan)
    print(f"Happened: {', '.join(f'{what} {count}' for what, count in sorted(happened.items()))}.")
    print(f"Landed {load.files} files with {load.events} events; {recoveries.batches} batches; {reader.looks} looks of a reader.")
    print(f"{recoveries} Starts of the service: {service.starts}.")
    return faults


@dataclass
class Recoveries:
    """How long after a disturbance the next batch was finished. A disturbance before that counts as the same one."""

    stack: Stack
    batches: int = 0
    _seconds: list[float] = field(default_factory=list)
    _since: float | None = None

    def begin(self) -> None:
        self._since = self._since or time.monotonic()

    def look(self) -> None:
        done = len(self.stack.rows("_ops.books", ["batch_id"]))
        if done > self.batches and self._since is not None:
            self._seconds.append(time.monotonic() - self._since)
            self._since = None
        self.batches = done

    def __str__(self) -> str:
        if not self._seconds:
            return "No batch followed a disturbance."
        return f"Next batch after a disturbance: median {median(self._seconds):.0f} s, longest {max(self._seconds):.0f} s."


if __name__ == "__main__":
    sys.exit(main())
