"""Several reference sets through the three layers in one session: the first pays for start-up, the others show the steady cost.

Submitted as `warm_session.py <set> <set> …` (folders of landing files, delivered one after the other); prints one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from spark_jobs.io.lease import Leases
from spark_jobs.io.ledger import discover
from spark_jobs.jobs import build_gold, publishing, run_layers
from spark_jobs.jobs.run import Run
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import LAYERS
from tests.bench.measure import tree_cpu_s
from tests.bench.reference_set import LandedSet

_of_gates: Counter[str] = Counter()


def _cpu_s() -> float:
    return tree_cpu_s(os.getppid())  # spark-submit's JVM is the parent of this process and of the workers


def _metered(judge: Any) -> Any:
    """The gate of a batch, its processor time added up under its layer."""

    def metered(run: Run, layer: str, *rest: Any) -> Any:
        before = _cpu_s()
        try:
            return judge(run, layer, *rest)
        finally:
            _of_gates[layer] += _cpu_s() - before

    return metered


def main(folders: list[str]) -> None:
    publishing.judge = _metered(publishing.judge)
    build_gold.judge = _metered(build_gold.judge)
    run = Run(load_settings(), load_pipeline("cloudtrail"), "bench")
    sets: list[dict[str, Any]] = []
    for number, folder in enumerate(folders):
        landed = LandedSet(Path(folder), tuple(sorted(Path(folder).rglob("*.gz"))), 0, 0)
        landed.land(Path(run.settings.landing_root))
        discover(run.settings, run.pipeline, run.run_id, run.clock(), sweep=True)
        _of_gates.clear()
        costs: dict[str, Any] = {"set": number}
        if number == 0:
            before = _cpu_s()
            run.spark  # noqa: B018  # opened here, so that its cost is not the first layer's
            costs["session"] = _cpu_s() - before
        for layer in LAYERS:
            before, started = _cpu_s(), time.monotonic()
            with Leases(run.settings, run.pipeline.tables(layer), run.run_id) as leases:
                run_layers._start(layer)(run, leases).wait()
            costs[layer], costs[f"{layer}_wall"] = _cpu_s() - before, time.monotonic() - started
        costs["gates"] = dict(_of_gates)
        sets.append(costs)
    run.spark.stop()
    print(json.dumps({"sets": sets}))


if __name__ == "__main__":
    main(sys.argv[1:])
