"""Kills and freezes, each of what is there at that moment."""

from __future__ import annotations

import random
import subprocess
import time
from contextlib import suppress

import psutil

from tests.builders.continuous_driver import words_of
from tests.builders.stack import PROJECT, Stack
from tests.soak.services import Service, driver_family

RIVAL_LIFETIME_MIN = "0.5"
RIVAL_S = 180.0  # a rival that has not ended by then hangs


class Disturbances:
    """`disturb(what, seed)` does it and says to whom; `settle` thaws what is still frozen and waits for the rivals' ends."""

    def __init__(self, stack: Stack, service: Service) -> None:
        self.stack, self.service = stack, service
        self._frozen: list[tuple[float, list[psutil.Process]]] = []
        self._rivals: list[subprocess.Popen[bytes]] = []

    def disturb(self, what: str, seed: int) -> str:
        chance = random.Random(seed)
        family = driver_family(self.stack)
        match what:
            case "kill driver":
                return _kill([one for one in family if "stream" in words_of(one) and one.name() != "java"][:1])
            case "kill JVM":
                return _kill([one for one in family if one.name() == "java"][:1])
            case "kill worker":
                workers = [one for one in family if "pyspark.daemon" in words_of(one)]
                return _kill(chance.sample(workers, 1) if workers else [])
            case "kill task runner":
                runner = self.service.task_runner()
                return _kill([runner] if runner else [])
            case "kill scheduler":
                scheduler = self.service.scheduler()
                return _kill([scheduler] if scheduler else [])
            case "freeze":
                return self._freeze(family, chance.uniform(2, 2.5 * self.stack.settings.lease_ttl_s))
            case "freeze and overtake":
                said = self._freeze(family, chance.uniform(3, 5) * self.stack.settings.lease_ttl_s)
                self._rivals.append(
                    subprocess.Popen(
                        [*self.stack.command("stream"), "--lifetime-min", RIVAL_LIFETIME_MIN],
                        env=self.stack.environment(),
                        cwd=PROJECT,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                    )
                )
                return f"{said}; a rival was started"
        raise ValueError(what)

    def tend(self) -> None:
        """Thaw what has been frozen for its time."""
        for until, frozen in list(self._frozen):
            if time.monotonic() >= until:
                self._frozen.remove((until, frozen))
                for process in frozen:
                    with suppress(psutil.Error):
                        process.resume()
        for rival in list(self._rivals):
            if rival.poll() is not None:
                self._rivals.remove(rival)

    def settle(self) -> None:
        self._frozen = [(0.0, frozen) for _, frozen in self._frozen]
        self.tend()
        for rival in self._rivals:
            rival.wait(timeout=RIVAL_S)

    def _freeze(self, family: list[psutil.Process], seconds: float) -> str:
        for process in family:
            with suppress(psutil.Error):
                process.suspend()
        if family:
            self._frozen.append((time.monotonic() + seconds, family))
        return f"{len(family)} processes for {seconds:.0f} s" if family else "no driver was at work"


def _kill(processes: list[psutil.Process]) -> str:
    said = []
    for process in processes:
        with suppress(psutil.Error):
            said.append(f"process {process.pid} ({process.name()})")
            process.kill()
    return ", ".join(said) or "there was none"
