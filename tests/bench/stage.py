"""A lake and a landing folder of the bench's own, and the commands that Airflow's tasks run on them."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_jobs.io.java_options import LAUNCHER, driver_class_path
from spark_jobs.spec.settings import Settings, load_settings
from tests.bench.measure import Cost, measure
from tests.bench.reference_set import LandedSet

PROJECT = Path(__file__).parents[2]
STATE = Path(os.environ.get("ASSAY_HOME") or PROJECT / ".assay").absolute()
CACHE = STATE / "bench"
SPARK_SUBMIT = str(Path(sys.executable).parent / "spark-submit")


@dataclass(frozen=True)
class Stage:
    """One landing folder and one lake below `folder`."""

    folder: Path

    def settings(self, **more: Any) -> Settings:
        return load_settings(home=STATE, lake=str(self.folder / "lake"), landing=str(self.folder / "landing"), **more)

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "landing").mkdir(parents=True)

    def land(self, *sets: LandedSet) -> None:
        for one in sets:
            one.land(self.folder / "landing")

    def keep(self, name: str) -> None:
        """Remember the lake and the landing folder as they are now."""
        self._copy(self.folder, self.folder.with_name(f"{self.folder.name}-{name}"))

    def back_to(self, name: str) -> None:
        """As they were when `keep` was called; the paths are those of before, since the ledger knows files by their paths."""
        self._copy(self.folder.with_name(f"{self.folder.name}-{name}"), self.folder)

    @staticmethod
    def _copy(source: Path, target: Path) -> None:
        """Copies keep inode contents apart (the lake is written) and times equal (the ledger compares them)."""
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source / "lake", target / "lake")
        shutil.copytree(source / "landing", target / "landing", copy_function=os.link)

    def discover(self) -> tuple[Cost, dict[str, Any]]:
        cost = self._python("discover")
        return cost, json.loads(cost.output.strip().splitlines()[-1])

    def gate(self, layer: str) -> Cost:
        return self._python("gate", "--layer", layer)

    def submit(self, job: str, *, java_options: str, gates: bool) -> Cost:
        """One spark-submit of a job, spelled as the DAG's operator spells it."""
        application = PROJECT / "spark_jobs" / "jobs" / f"{job}.py"
        return self.script(application, "--pipeline", "cloudtrail", "--run-id", "bench", java_options=java_options, gates=gates)

    def script(self, script: Path, *options: str, java_options: str, gates: bool) -> Cost:
        settings = self.settings()
        command = [
            SPARK_SUBMIT, "--master", settings.master, "--conf", f"spark.driver.extraClassPath={driver_class_path(settings)}",
            "--conf", f"spark.driver.extraJavaOptions={java_options}", "--conf", "spark.ui.enabled=false",
            "--driver-memory", settings.driver_memory, "--name", f"cloudtrail.{script.stem}", str(script), *options,
        ]  # fmt: skip
        return measure(command, env=self.environment(gates=gates), cwd=PROJECT, log=self._log(script.stem))

    def environment(self, *, gates: bool = True) -> dict[str, str]:
        own = {
            "ASSAY_HOME": str(STATE), "ASSAY_LAKE": str(self.folder / "lake"), "ASSAY_LANDING": str(self.folder / "landing"),
            "ASSAY_GATES": str(gates).lower(), "PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LAUNCHER_OPTS": LAUNCHER, "SPARK_LOCAL_IP": "127.0.0.1",
        }  # fmt: skip
        if (STATE / "java" / "bin" / "java").is_file():
            own["JAVA_HOME"] = str(STATE / "java")
        return {**os.environ, **own}

    def _python(self, job: str, *options: str) -> Cost:
        command = [sys.executable, "-m", f"spark_jobs.jobs.{job}", "--pipeline", "cloudtrail", "--run-id", "bench", *options]
        return measure(command, env=self.environment(), cwd=PROJECT, log=self._log(job))

    def _log(self, name: str) -> Path:
        return CACHE / "logs" / f"{name}.log"
