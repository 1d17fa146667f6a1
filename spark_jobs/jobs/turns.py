"""Whose turn it is: a backfill drives the pipeline's own writer when no live run does, and steps back when one waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_jobs.io.delta_log import Position, added_files, latest_version
from spark_jobs.io.lease import Lease
from spark_jobs.io.relay import driver_of
from spark_jobs.io.work import bronze_checkpoint, named_silver_version, pending_files, silver_checkpoint, unfinished_layers
from spark_jobs.jobs.run import Run
from spark_jobs.jobs.run_layers import run_in_turn
from spark_jobs.spec.errors import AssayError, LeaseHeld, LeaseLost
from spark_jobs.spec.tables import LAYERS, Layer, TableId

LOOK_EVERY_S = 1.0


class TurnNeverCame(AssayError):
    """Live writers were at work for longer than a backfill waits; what it has handed over is done by them or by its next try."""

    exit_code = 3


@dataclass
class Turns:
    """One backfill process among live ones. `waited_s` is how long it stood aside."""

    run: Run
    waited_s: float = 0.0
    _since_work_s: float = 0.0
    _said: set[str] = field(default_factory=set)
    _reached: tuple[Position, Position] | None = None

    def work_until(self, is_done: Callable[[], bool], layers: Sequence[Layer] = LAYERS) -> None:
        """Drive those of the layers that are behind, whoever brought their work, until it is done; live writers first.

        A pipeline that is run continuously is left to its driver, which takes what was handed over as anything that lands. Raises
        GateStopped, TurnNeverCame and whatever the layers raise.
        """
        while not is_done():
            if driver := driver_of(self.run.settings, self.run.pipeline):
                self._stand_aside(f"{self.run.pipeline.name} is run continuously by {driver}: it takes what is handed over.")
                self._see_progress()
                continue
            behind = self._behind(layers)
            if behind:
                self.take(lambda behind=behind: run_in_turn(self.run, behind, []))
            else:
                self._stand_aside("Waiting for the run that is at work to finish what it has begun.")

    def take(self, work: Callable[[], Any]) -> Any:
        """The result of work that takes leases, once no live writer waits and the tables are free."""
        while True:
            if owners := self.live_writers_waiting():
                self._stand_aside(f"Live first: {', '.join(owners)} waits.")
                continue
            try:
                result = work()
            except LeaseLost:
                raise
            except LeaseHeld as held:
                self._stand_aside(str(held))
                continue
            self._since_work_s = 0.0
            return result

    def live_writers_waiting(self) -> list[str]:
        tables = self.run.pipeline.all_tables
        return sorted({owner for table in tables for owner in Lease(self.run.settings, table, "").waiting()})

    def catch_up(self, layers: Sequence[Layer] = LAYERS) -> None:
        """Until each of the layers has consumed its source and no live writer waits: then history may be handed over."""
        self.work_until(lambda: not self._behind(layers) and not self.live_writers_waiting(), layers)

    def _behind(self, layers: Sequence[Layer]) -> list[Layer]:
        behind = unfinished_layers(self.run.settings, self.run.pipeline)
        return [layer for layer in layers if layer in behind]

    def _see_progress(self) -> None:
        """A driver that comes on with what was handed over is worth waiting for, however much it is."""
        settings, pipeline = self.run.settings, self.run.pipeline
        reached = (bronze_checkpoint(settings, pipeline).position(), silver_checkpoint(settings, pipeline).position())
        if reached != self._reached:
            self._reached, self._since_work_s = reached, 0.0

    def _stand_aside(self, why: str) -> None:
        if why.split(" (process")[0] not in self._said:
            self._said.add(why.split(" (process")[0])
            self.run.say(why)
        patience_s = self.run.settings.backfill_wait_s
        if self._since_work_s >= patience_s:
            raise TurnNeverCame(
                f"Other writers were at work for {patience_s} s, longer than a backfill waits (ASSAY_BACKFILL_WAIT_S). What it has handed "
                f"over is read by them; run the chunk again to go on."
            )
        time.sleep(LOOK_EVERY_S)
        self.waited_s += LOOK_EVERY_S
        self._since_work_s += LOOK_EVERY_S


class Consumed:
    """Whether these layers have taken what the ledger held at one of its versions (None: what it holds has no part in it).

    What lands after it does not matter: each layer is asked for what its source held when the layer before it had come that far.
    """

    def __init__(self, run: Run, ledger_version: int | None, layers: Sequence[Layer] = LAYERS) -> None:
        self._run, self._ledger, self._layers = run, ledger_version, layers
        self._bronze: int | None = None
        self._silver: int | None = None

    def __call__(self) -> bool:
        settings, pipeline = self._run.settings, self._run.pipeline
        if self._bronze is None:
            if self._ledger is not None and pending_files(settings, pipeline, self._ledger).files:
                return False
            self._bronze = _version(self._run, pipeline.bronze_table)
        if self._silver is None:
            if self._has_unread(pipeline.bronze_table, silver_checkpoint(settings, pipeline).position(), self._bronze):
                return False
            self._silver = _version(self._run, pipeline.silver_table)
        for table in pipeline.gold_tables_of("hourly") if "gold" in self._layers else ():
            named = named_silver_version(settings, pipeline, table)
            if self._has_unread(pipeline.silver_table, Position(0 if named is None else named + 1, -1), self._silver):
                return False
        return True

    def _has_unread(self, table: TableId, after: Position, up_to: int) -> bool:
        try:
            return any(True for _ in added_files(self._run.settings, table, after, up_to))
        except FileNotFoundError:  # so far behind that the commit files are gone
            return True


def _version(run: Run, table: TableId) -> int:
    version = latest_version(run.settings, table)
    return -1 if version is None else version
