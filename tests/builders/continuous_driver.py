"""Continuous drivers as their supervisor starts them, to be killed and frozen by name, and what they have published meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import psutil

from spark_jobs.io.relay import driver_of
from tests.builders.disturbed import processes_of
from tests.builders.stack import Stack
from tests.builders.task_runner import start_task

PATIENCE_S = 240  # a driver needs 20 s from its start to its first batch, on two quiet cores
QUICK = {"trigger": "every 1 seconds", "gold_trigger": "every 1 seconds", "gates": False, "lease_ttl_s": 5, "lifetime_min": 50}


class Driver:
    """One continuous driver under spark-submit, its task's process above it."""

    def __init__(self, stack: Stack, name: str) -> None:
        self.stack, self.name = stack, name
        self.task = start_task(stack, "stream", TEST_DRIVER=name)

    def family(self) -> list[psutil.Process]:
        """All that is alive of it, the task's process included."""
        found = []
        for process in processes_of(self.stack):
            with suppress(psutil.Error):
                if process.environ().get("TEST_DRIVER") == self.name:
                    found.append(process)
        return found

    def jvm(self) -> psutil.Process:
        return next(process for process in self.family() if process.name() == "java")

    def python(self) -> psutil.Process:
        return next(process for process in self.jvm().children() if "stream.py" in words_of(process))

    def workers(self) -> list[psutil.Process]:
        """The Python processes that read files for the JVM."""
        daemons = [process for process in self.jvm().children() if "pyspark.daemon" in words_of(process)]
        return [worker for daemon in daemons for worker in daemon.children()]

    def is_at_work(self) -> bool:
        holder = driver_of(self.stack.settings, self.stack.pipeline)
        with suppress(StopIteration, psutil.Error):
            return holder is not None and holder.pid == self.python().pid
        return False

    def freeze(self) -> list[psutil.Process]:
        """SIGSTOP all of it but the task's process; the answer can be resumed."""
        frozen = [process for process in self.family() if process.pid != self.task.pid]
        for process in frozen:
            process.suspend()
        return frozen


def words_of(process: psutil.Process) -> str:
    """Its command line; nothing when it has just ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def until(is_so: Callable[[], bool], otherwise: str, within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.2)
