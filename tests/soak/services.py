"""What keeps the continuous run alive during a soak, and the processes of its that can be killed or frozen.

The soak stands where the machine's service manager would: a service that was killed is started again.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

import psutil

from spark_jobs.io.relay import ask_to_end, driver_of
from tests.builders.continuous_driver import words_of
from tests.builders.disturbed import processes_of
from tests.builders.running_airflow import Up
from tests.builders.stack import PROJECT, Stack

RESTART_S = 2.0  # as the systemd unit's RestartSec, about
DAG = "cloudtrail_continuous"


class Service(Protocol):
    """`tend` starts it when it is not there. `starts`: how often."""

    starts: int

    def tend(self) -> None: ...
    def task_runner(self) -> psutil.Process | None: ...
    def scheduler(self) -> psutil.Process | None: ...
    def family(self) -> list[psutil.Process]: ...
    def stop(self) -> None: ...


class Command:
    """`assay stream start`."""

    def __init__(self, stack: Stack, log: Path) -> None:
        self.stack, self.starts = stack, 0
        self._log: IO[bytes] = log.open("ab")
        self._process: subprocess.Popen[bytes] | None = None
        self._ended_at = 0.0

    def tend(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._ended_at = 0.0
            return
        self._ended_at = self._ended_at or time.monotonic()
        if self._process is None or time.monotonic() - self._ended_at > RESTART_S:
            self.starts += 1
            self._process = subprocess.Popen(
                [str(Path(sys.executable).parent / "assay"), "stream", "start"],
                env=self.stack.environment(), cwd=PROJECT, stdout=self._log, stderr=self._log, start_new_session=True,
            )  # fmt: skip

    def task_runner(self) -> psutil.Process | None:
        return psutil.Process(self._process.pid) if self._process and self._process.poll() is None else None

    def scheduler(self) -> psutil.Process | None:
        """What starts the drivers is this command itself."""
        return self.task_runner()

    def family(self) -> list[psutil.Process]:
        return processes_of(self.stack)

    def stop(self) -> None:
        ask_to_end(self.stack.settings, self.stack.pipeline, "the soak")
        if self._process is not None:
            self._process.wait(timeout=300)


class Airflow:
    """`make up`, switched to continuous."""

    def __init__(self, stack: Stack, home: Path) -> None:
        self.stack, self.starts = stack, 0
        home.mkdir(parents=True, exist_ok=True)
        self._own = {name: value for name, value in stack.environment().items() if name.startswith("ASSAY_")}
        self._own.pop("ASSAY_HOME")
        self._home = home
        self._up: Up | None = None
        self._is_switched = False

    def tend(self) -> None:
        if self._up is None:
            self._up = Up(self._home, self.stack.landing, more=self._own)
        elif self._up.process.poll() is not None:
            self._up.start()
        else:
            if not self._is_switched and "Ctrl-C stops all of it" in self._up.said:
                api = self._up.api()
                api.switch("cloudtrail_hourly", on=False)
                api.switch(DAG, on=True)
                self._is_switched = True
            return
        self.starts += 1

    def task_runner(self) -> psutil.Process | None:
        """The process that runs the task: the parent of the spark-submit."""
        holder = driver_of(self.stack.settings, self.stack.pipeline)
        with suppress(psutil.Error):
            if holder is not None and (jvm := psutil.Process(holder.pid).parent()) is not None and jvm.name() == "java":
                return jvm.parent()
        return None

    def scheduler(self) -> psutil.Process | None:
        with suppress(psutil.Error):
            keepers = psutil.Process(self._up.process.pid).children() if self._up is not None else []
            return next((server for keeper in keepers if " scheduler" in words_of(keeper) for server in keeper.children()), None)
        return None

    def family(self) -> list[psutil.Process]:
        return self._up.family() if self._up is not None else []

    def stop(self) -> None:
        assert self._up is not None
        if self._up.process.poll() is None:
            self._up.api().switch(DAG, on=False)
            ask_to_end(self.stack.settings, self.stack.pipeline, "the soak")
            deadline = time.monotonic() + 300
            while driver_of(self.stack.settings, self.stack.pipeline) is not None and time.monotonic() < deadline:
                time.sleep(1)
            self._up.process.terminate()
            self._up.process.wait(timeout=120)


def driver_family(stack: Stack) -> list[psutil.Process]:
    """The driver that is at work: its JVM and all that belongs to it; nothing when none is."""
    holder = driver_of(stack.settings, stack.pipeline)
    with suppress(psutil.Error):
        if holder is not None:
            python = psutil.Process(holder.pid)
            parent = python.parent()
            root = parent if parent is not None and parent.name() == "java" else python
            return [root, *root.children(recursive=True)]
    return []


def left_over(stack: Stack, service: Service) -> list[psutil.Process]:
    """What still works on the lake or belongs to the service, after it had time to end."""
    deadline = time.monotonic() + 60
    while (left := {*processes_of(stack), *service.family()}) and time.monotonic() < deadline:
        time.sleep(0.5)
    return list(left)
