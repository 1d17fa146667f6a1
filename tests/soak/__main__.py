"""`python -m tests.soak [--minutes 40] [--seed N] [--under stream|up]`: a storm, then all invariants. Exit code 1 when one is broken."""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import mkdtemp

from tests.builders.stack import Stack
from tests.soak.disturbances import Disturbances
from tests.soak.landing_load import LandingLoad
from tests.soak.readers import Reader
from tests.soak.schedule import LANDINGS, schedule
from tests.soak.services import Airflow, Command, Service
from tests.soak.verdict import broken, wait_until_caught_up

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
    load, reader, disturbances = LandingLoad(stack.landing), Reader(stack), Disturbances(stack, service)
    recoveries: list[float] = []
    disturbed_at: float | None = None
    batches = 0
    reader.start()
    began = time.monotonic()

    def tend() -> None:
        service.tend()
        disturbances.tend()

    for happening in plan:
        while time.monotonic() - began < happening.at_s:
            tend()
            done = len(stack.rows("_ops.books", ["batch_id"]))
            if done > batches and disturbed_at is not None:
                recoveries.append(time.monotonic() - disturbed_at)
                disturbed_at = None
            batches = done
            time.sleep(0.2)
        if happening.what in LANDINGS:
            said = load.land(happening.what, happening.seed)
        else:
            said = disturbances.disturb(happening.what, happening.seed)
            disturbed_at = disturbed_at or time.monotonic()
        print(f"{happening}: {said}", flush=True)
    load.finish()
    disturbances.settle()
    faults = []
    try:
        caught_up_s = wait_until_caught_up(stack, tend)
        print(f"Caught up {caught_up_s:.0f} s after the storm.", flush=True)
    except Exception as fault:  # told with the rest
        faults.append(f"it did not catch up: {type(fault).__name__}: {str(fault).splitlines()[0]}")
    service.stop()
    reader.stop()
    faults += broken(stack, load, reader)
    happened = Counter(one.what for one in plan)
    print(f"Happened: {', '.join(f'{what} {count}' for what, count in sorted(happened.items()))}.")
    print(f"Landed {load.files} files with {load.events} events; {batches} batches; {reader.looks} looks of a reader.")
    if recoveries:
        print(f"Next batch after a disturbance: median {sorted(recoveries)[len(recoveries) // 2]:.0f} s, longest {max(recoveries):.0f} s.")
    print(f"Starts of the service: {service.starts}.")
    for fault in faults:
        print(f"BROKEN: {fault}")
    print(f"Seed {seed}: {f'{len(faults)} invariants are broken; the lake is kept in {folder}' if faults else 'all invariants hold'}.")
    if not faults and not options.folder:
        shutil.rmtree(folder)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
