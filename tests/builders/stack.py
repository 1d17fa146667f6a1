"""The real stack on a folder of its own: landing, lake, ledger, jobs. In this process on a shared session, or as real job processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.io.lake import lake_table, rows_of
from spark_jobs.io.lease import Leases
from spark_jobs.io.ledger import Discovered, discover
from spark_jobs.io.ops import Ops
from spark_jobs.jobs.run import Run
from spark_jobs.spec.errors import GateStopped
from spark_jobs.spec.pipeline import Pipeline, load_pipeline
from spark_jobs.spec.settings import Settings, load_settings
from spark_jobs.spec.tables import LAYERS, Layer, TableId

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = Path(__file__).parents[2]
SAMPLE = PROJECT / "infra" / "sample" / "cloudtrail"


class Stack:
    """`land` files, `discover` them, `run` the layers, `rows` of any table. Everything lies below one folder."""

    def __init__(self, folder: Path, spark: SparkSession | None = None, pipeline: str = "cloudtrail", **settings: Any) -> None:
        self.folder = folder
        self.project = PROJECT
        self.landing = folder / "landing"
        self.landing.mkdir(parents=True, exist_ok=True)
        places: dict[str, Any] = {"home": PROJECT / ".assay", "lake": str(folder / "lake"), "landing": str(self.landing)}
        # On the shared session only tests that look at it keep it: its thread would write on beside the next test.
        places["progress"] = spark is None
        self.settings: Settings = load_settings(**{**places, **settings})
        self.pipeline: Pipeline = load_pipeline(pipeline)
        self.ops = Ops(self.settings)
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.small = True  # False: as for much pending input, whose re-deliveries are found in another way
        self._spark = spark
        self._runs = 0

    def land(self, name: str, content: bytes) -> Path:
        path = self.landing / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def land_sample(self, wanted: Callable[[str], bool] = lambda name: True) -> list[Path]:
        """Copy the sample's files whose name is wanted into the landing folder."""
        landed = []
        for source in sorted(SAMPLE.rglob("*.gz")):
            if wanted(source.name):
                target = self.landing / source.relative_to(SAMPLE)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
                landed.append(target)
        return landed

    def discover(self, **how: Any) -> Discovered:
        return discover(self.settings, self.pipeline, self._next_run(), self.clock(), **how)

    def run(self, *layers: Layer, run_id: str = "") -> GateStopped | None:
        """Run layers (default all three) on the shared session; a stopped gate ends the run and is returned, as in the real job."""
        from spark_jobs.jobs.layer_start import source_of, start_layer

        assert self._spark is not None, "this stack has no session; use `job`"
        run = Run(self.settings, self.pipeline, run_id or self._next_run(), self.clock, small=self.small)
        run._session.append(self._spark)
        try:
            for layer in layers or LAYERS:
                if lake_table(self.settings, source_of(self.pipeline, layer)) is not None:
                    with Leases(self.settings, self.pipeline.tables(layer), run.run_id) as leases:
                        start_layer(layer)(run, leases).wait()
        except GateStopped as stopped:
            return stopped
        finally:
            run.close()
        return None

    def daily(self, run_id: str = "") -> dict[str, Any]:
        """Run the daily gold job on the shared session; what it says: `tables` that were brought up, `stopped`."""
        from spark_jobs.jobs.build_daily_gold import build_daily_gold

        return build_daily_gold(self.start(run_id))

    def start(self, run_id: str = "") -> Run:
        """A run on the shared session, for the functions that take one."""
        run = Run(self.settings, self.pipeline, run_id or self._next_run(), self.clock, small=self.small)
        run._session.append(self._spark)
        return run

    def job(
        self, name: str, *options: str, env: dict[str, str] | None = None, check: bool = False, under: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        """A job as its own process, as Airflow starts it (`discover`, `ingest_bronze`, `build_silver`, `build_gold`, `run_layers`, `gate`).

        `under`: a command that starts the job with fewer rights or resources.
        """
        command = [*under, *self.command(name, *options)]
        return subprocess.run(command, env=self.environment(env), cwd=PROJECT, text=True, capture_output=True, check=check)

    def command(self, name: str, *options: str) -> list[str]:
        return [sys.executable, "-m", f"spark_jobs.jobs.{name}", "--pipeline", self.pipeline.name, "--run-id", self._next_run(), *options]

    def environment(self, more: dict[str, str] | None = None) -> dict[str, str]:
        own = {f"ASSAY_{name.upper()}": str(value) for name, value in self.settings.model_dump().items() if value is not None}
        return {**os.environ, **own, "ASSAY_PROGRESS": "true", **(more or {})}  # a process of its own ends it by itself

    def rows(self, table: str, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """All rows of any table, `_ops` ones included; none when it was never written."""
        return self.arrow(table, columns).to_pylist()

    def arrow(self, table: str, columns: Sequence[str] | None = None, version: int | None = None) -> pa.Table:
        found = lake_table(self.settings, TableId.parse(table), version)
        return pa.table({}) if found is None else rows_of(found).to_table(columns=list(columns) if columns else None)

    def content(self, table: str) -> list[str]:
        """A table's rows without engine columns, in an order of their own: equal content gives equal lists."""
        rows = self.arrow(table)
        kept = [name for name in rows.column_names if not name.startswith("_") or name == "_rescued"]
        return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows.select(kept).to_pylist())

    def _next_run(self) -> str:
        self._runs += 1
        return f"run-{self._runs}"
