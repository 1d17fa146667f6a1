"""What is measured, each scenario once; the runner repeats them in turn, so that a busy minute of the machine falls on all of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.io.java_options import archive_options
from spark_jobs.spec.tables import LAYERS
from tests.bench.backfills import Backfills
from tests.bench.growth import Growth
from tests.bench.measure import Cost, measure
from tests.bench.reference_set import LandedSet, hourly_files, large_file, reference_set
from tests.bench.stage import CACHE, PROJECT, Stage

HERE = Path(__file__).parent
LEDGER_FILES = 4_000_000
JOBS = {"bronze": "ingest_bronze", "silver": "build_silver", "gold": "build_gold"}


@dataclass(frozen=True)
class Figure:
    """One line of the table; `reach` is the target of the project, None where there is none."""

    name: str
    cpu_s: float
    wall_s: float
    peak_mb: float | None = None
    reach: float | None = None


class Scenarios:
    def __init__(self) -> None:
        self.sets = [reference_set(CACHE, number) for number in range(3)]
        self.hour: LandedSet = hourly_files(CACHE)
        self._stage = Stage(CACHE / "stage")
        self._base = "after-one-set"
        self._growth = Growth()
        self._backfills = Backfills(self.sets)

    def all(self) -> list[Callable[[], list[Figure]]]:
        """Reference set first: the small runs go on from the lake that it leaves."""
        return [
            self.reference_set, self.small_run, self.small_run_with_gates, self.small_run_in_three_submits, self.nothing_new,
            self.peer_spark, self.peer_chdb, self.warm, self.warm_with_gates, self.reference_set_with_gates, self.large_file,
            self.large_ledger, self.history, self.backfill, self.hour_beside_a_backfill,
        ]  # fmt: skip

    def reference_set(self) -> list[Figure]:
        cost = self._reference_set(gates=False)
        self._stage.keep(self._base)
        return [_figure("reference set, cold, three layers in one submit", cost, reach=60)]

    def reference_set_with_gates(self) -> list[Figure]:
        return [_figure("reference set, cold, with gates", self._reference_set(gates=True))]

    def small_run(self) -> list[Figure]:
        """2 new files on the table of the reference set."""
        return [_figure("small run, three layers in one submit", self._small(["run_layers"], gates=False), reach=20)]

    def small_run_with_gates(self) -> list[Figure]:
        return [_figure("small run, with gates", self._small(["run_layers"], gates=True), reach=35)]

    def small_run_in_three_submits(self) -> list[Figure]:
        return [_figure("small run, a submit per layer, with gates", self._small(list(JOBS.values()), gates=True), reach=60)]

    def nothing_new(self) -> list[Figure]:
        self._stage.back_to(self._base)
        cost, answer = self._stage.discover()
        if answer["has_work"]:
            raise RuntimeError(f"The lake of the reference set should have no work: {answer['sentence']}")
        return [_figure("nothing new (discover, no JVM)", cost, reach=3)]

    def large_file(self) -> list[Figure]:
        """One gz that inflates to 200 MB; of interest is the memory."""
        self._stage.clear()
        self._stage.land(large_file(CACHE))
        _, answer = self._stage.discover()
        cost = self._stage.submit("ingest_bronze", java_options=answer["java_options"], gates=False)
        return [_figure("one gz of 28 MB inflating to 200 MB, bronze", cost)]

    def large_ledger(self) -> list[Figure]:
        """What discover asks of a ledger of 4,000,000 files; the reach, 3 s and 2 GB, is for all dates."""
        lake = CACHE / f"ledger-{LEDGER_FILES}"
        command = [sys.executable, "-m", "tests.bench.large_ledger"]
        if not (lake / "made").exists():
            shutil.rmtree(lake, ignore_errors=True)
            subprocess.run([*command, "make", str(lake), str(LEDGER_FILES)], cwd=PROJECT, env=self._stage.environment(), check=True)
            (lake / "made").touch()
        cost = measure([*command, "ask", str(lake)], env=self._stage.environment(), cwd=PROJECT, log=CACHE / "logs" / "large_ledger.log")
        said = json.loads(cost.output.strip().splitlines()[-1])
        if (said["rows"], said["all_dates_s_known"]) != (LEDGER_FILES, 500):
            raise RuntimeError(f"The ledger's answer is wrong: {said}")
        return [
            Figure(f"ledger of {LEDGER_FILES:,} files: both looks", cost.cpu_s, cost.wall_s, cost.peak_mb.get("all")),
            Figure("  wall time of a look at one date", 0, said["one_date_s"]),
            Figure("  wall time of a look at all dates", 0, said["all_dates_s"], reach=3),
        ]

    def history(self) -> list[Figure]:
        """The same hour on lakes with more history."""
        figures = [_figure("one hour, history × 1", self._growth.hour("rows", 1))]
        for kind in ("rows", "ledger", "versions"):
            figures += [_figure(f"one hour, {kind} × {factor}", self._growth.hour(kind, factor)) for factor in (10, 100)]
        return figures

    def backfill(self) -> list[Figure]:
        """The reference set as history, with gates; compare with the plain cold run with gates."""
        cost, wall_s, cpu_s = self._backfills.load()
        return [_figure("backfill of the reference set, with gates", cost), Figure("  as it was predicted", cpu_s, wall_s)]

    def hour_beside_a_backfill(self) -> list[Figure]:
        """Of interest is the wall time; the reach is a factor of the run alone."""
        alone, beside = self._backfills.hour_alone_and_beside()
        return [Figure("hourly run, alone", 0, alone), Figure("hourly run, beside a backfill: at most 1.5 times", 0, beside)]

    def warm(self) -> list[Figure]:
        return self._warm(gates=False)

    def warm_with_gates(self) -> list[Figure]:
        return self._warm(gates=True)

    def peer_spark(self) -> list[Figure]:
        options = archive_options(self._stage.settings(), small=False)
        return self._peer(
            "plain Spark batch", self._stage.script(HERE / "peer_spark.py", *self._peer_pairs(), java_options=options, gates=False)
        )

    def peer_chdb(self) -> list[Figure]:
        command = [sys.executable, str(HERE / "peer_chdb.py"), *self._peer_pairs()]
        return self._peer("chdb", measure(command, env=self._stage.environment(), cwd=PROJECT, log=CACHE / "logs" / "peer_chdb.log"))

    def _reference_set(self, *, gates: bool) -> Cost:
        self._stage.clear()
        self._stage.land(self.sets[0])
        _, answer = self._stage.discover()
        return self._stage.submit("run_layers", java_options=answer["java_options"], gates=gates)

    def _small(self, jobs: list[str], *, gates: bool) -> Cost:
        self._stage.back_to(self._base)
        self._stage.land(self.hour)
        _, answer = self._stage.discover()
        costs = [self._stage.submit(job, java_options=answer["java_options"], gates=gates) for job in jobs]
        return sum(costs[1:], costs[0])

    def _warm(self, *, gates: bool) -> list[Figure]:
        """Three sets in one session. The figures are the means of the second and third."""
        self._stage.clear()
        options = archive_options(self._stage.settings(), small=False)
        cost = self._stage.script(HERE / "warm_session.py", *(str(one.folder) for one in self.sets), java_options=options, gates=gates)
        steady = json.loads(cost.output.strip().splitlines()[-1])["sets"][1:]
        mean = {name: sum(one[name] for one in steady) / len(steady) for layer in LAYERS for name in (layer, f"{layer}_wall")}
        said = "with gates" if gates else "gates off"
        figures = [
            Figure(f"warm session, {said}, per set", sum(mean[layer] for layer in LAYERS), sum(mean[f"{layer}_wall"] for layer in LAYERS),
                   cost.peak_mb.get("all"), None if gates else 20)
        ]  # fmt: skip
        figures += [Figure(f"  {layer}", mean[layer], mean[f"{layer}_wall"]) for layer in LAYERS if not gates]
        if gates:
            of_gates = {layer: sum(one["gates"].get(layer, 0) for one in steady) / len(steady) for layer in LAYERS}
            figures += [Figure(f"  of that, the gates of {layer}", cpu_s, 0) for layer, cpu_s in of_gates.items()]
            figures.append(Figure("  of that, all gates", sum(of_gates.values()), 0, reach=0.1 * figures[0].cpu_s))
        return figures

    def _peer_pairs(self) -> list[str]:
        output = CACHE / "peer"
        shutil.rmtree(output, ignore_errors=True)
        return [part for number, one in enumerate(self.sets) for part in (str(one.folder), str(output / str(number)))]

    def _peer(self, name: str, cost: Cost) -> list[Figure]:
        runs = json.loads(cost.output.strip().splitlines()[-1])
        if len({run["events"] for run in runs}) != 1:
            raise RuntimeError(f"{name} counted {[run['events'] for run in runs]} events in sets that have the same number")
        first, *steady = runs
        start_s = cost.cpu_s - sum(run["cpu_s"] for run in runs)
        start_wall_s = cost.wall_s - sum(run["wall_s"] for run in runs)
        warm_s, warm_wall_s = (sum(run[kind] for run in steady) / len(steady) for kind in ("cpu_s", "wall_s"))
        return [
            Figure(f"{name}, cold", start_s + first["cpu_s"], start_wall_s + first["wall_s"], cost.peak_mb.get("all")),
            Figure(f"{name}, warm, per set", warm_s, warm_wall_s),
        ]


def _figure(name: str, cost: Cost, reach: float | None = None) -> Figure:
    return Figure(name, cost.cpu_s, cost.wall_s, cost.peak_mb.get("all"), reach)
