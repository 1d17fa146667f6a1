"""Keeping a continuous driver alive without Airflow: started again with back-off when it fails, relieved when its lifetime ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from tempfile import TemporaryFile
from typing import IO, Any

from spark_jobs.cli.airflow_home import PROJECT
from spark_jobs.cli.job_process import JobFailed
from spark_jobs.io.relay import driver_of
from spark_jobs.jobs.crash_loop import MOST_FAILURES, came_through, crash_loop
from spark_jobs.jobs.run import Run
from spark_jobs.spec.guarding import guarded_by

LOOK_EVERY_S = 0.5
WARM_UP_S = 60.0  # a successor is started this long before its predecessor's end: a JVM and the gates' libraries take 20 s
LONGEST_PAUSE_S = 60.0  # what heals by itself (a disk, a network) is taken up within a minute of it
NOT_HEALED_BY_TIME = frozenset({2, 4, 5, 8})  # configuration, checkpoint, books, crash loop: the next start finds the same


def pause_s(failures: int) -> float:
    """Seconds before the next start, after so many failures in a row: 1, 2, 4 … 60."""
    return min(LONGEST_PAUSE_S, 2.0 ** (failures - 1))


@dataclass
class Driver:
    """One driver process; its own lines go to our standard error."""

    process: subprocess.Popen[bytes]
    answer: IO[bytes]
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    @classmethod
    def start(cls, run: Run, lifetime_min: float) -> Driver:
        python = os.environ.get("ASSAY_PYTHON") or sys.executable
        name = f"stream__{datetime.now(UTC):%Y%m%dT%H%M%S}"
        command = [python, "-m", "spark_jobs.jobs.stream", "--pipeline", run.pipeline.name, "--run-id", name]
        answer = TemporaryFile()  # noqa: SIM115  # closed when the driver has ended; a pipe that nobody reads could fill up
        env = {**os.environ, **guarded_by(os.getpid())}
        # A session of its own: Ctrl-C in the terminal reaches us alone, and is passed on as a wish to end at a batch boundary.
        process = subprocess.Popen(
            [*command, "--lifetime-min", f"{lifetime_min:g}"], cwd=PROJECT, env=env, stdout=answer, start_new_session=True
        )
        return cls(process, answer)

    def said(self) -> dict[str, Any]:
        """Its answer, once it has ended."""
        self.answer.seek(0)
        lines = [line for line in self.answer.read().decode(errors="replace").splitlines() if line.startswith("{")]
        self.answer.close()
        found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        return found


class Keeper:
    """`keep` returns when the drivers were asked to end; raises JobFailed and CrashLoop when starting again does not help."""

    def __init__(self, run: Run, lifetime_min: float, say: Callable[[str], None]) -> None:
        self._run, self._lifetime_min, self._say = run, lifetime_min, say
        self._drivers: list[Driver] = []
        self._is_ending = False
        self._failures = 0
        self._first_failure = datetime.now(UTC)

    def end(self, *_signal: object) -> None:
        """Ask the drivers to end at a batch boundary."""
        self._is_ending = True
        for driver in self._drivers:
            if driver.process.poll() is None:
                driver.process.send_signal(signal.SIGTERM)

    def keep(self) -> dict[str, Any]:
        last: dict[str, Any] = {}
        while True:
            if not self._drivers:
                if self._is_ending or last.get("ended") == "asked":
                    return last
                self._drivers.append(Driver.start(self._run, self._lifetime_min))
            time.sleep(LOOK_EVERY_S)
            for driver in [driver for driver in self._drivers if driver.process.poll() is not None]:
                self._drivers.remove(driver)
                last = self._after(driver)
            if not self._is_ending and self._is_time_for_successor():
                self._drivers.append(Driver.start(self._run, self._lifetime_min))

    def _is_time_for_successor(self) -> bool:
        if len(self._drivers) != 1:
            return False
        holder = driver_of(self._run.settings, self._run.pipeline)
        mine = holder is not None and holder.pid == self._drivers[0].process.pid
        return mine and holder is not None and 0 < holder.until - time.time() < min(WARM_UP_S, self._lifetime_min * 30)

    def _after(self, driver: Driver) -> dict[str, Any]:
        """What a driver that has ended said. Waits before the next start when it failed."""
        code, said = driver.process.returncode, driver.said()
        sentence = str(said.get("sentence") or f"it ended with {_code_in_words(code)}, without an answer.")
        if code == 0:
            self._say(f"The driver has ended: {sentence}")
            self._failures = 0
            return said
        if code in NOT_HEALED_BY_TIME:
            self.end()
            raise JobFailed(sentence, code, said)
        if came_through(self._run, driver.began):
            self._failures = 0
        if self._failures == 0:
            self._first_failure = driver.began
        self._failures += 1
        if self._failures >= MOST_FAILURES:
            raise crash_loop(self._run, self._failures, self._first_failure, sentence)
        failed = f"The driver failed ({self._failures} of {MOST_FAILURES} in a row): {sentence}"
        if self._drivers:
            self._say(f"{failed} The next one, started already, takes over.")
        elif not self._is_ending:
            pause = pause_s(self._failures)
            self._say(f"{failed} It is started again in {pause:.0f} s.")
            deadline = time.monotonic() + pause
            while time.monotonic() < deadline and not self._is_ending:
                time.sleep(min(LOOK_EVERY_S, pause))
        return said


def _code_in_words(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
