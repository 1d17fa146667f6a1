"""A lake whose daily gold is behind by a second delivery: daily jobs that are killed must end as the undisturbed one."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.builders.disturbed import Scene, everything
from tests.builders.stack import Stack


class DailyScene:
    """`undisturbed` is what every disturbed daily job must end as; each disturbance works on a copy of the lake."""

    def __init__(self, folder: Path, spark: SparkSession, **settings: object) -> None:
        self._scene = Scene(folder, spark, **settings)
        self.behind = self._scene.copy("behind")
        assert self.behind.daily()["stopped"] is None
        self.behind.discover()
        assert self.behind.run() is None
        calm = self.copy("calm_daily")
        assert calm.daily()["stopped"] is None
        self.undisturbed = everything(calm)

    def copy(self, name: str) -> Stack:
        return self._scene.copy(name, of=self.behind)
