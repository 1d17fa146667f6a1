"""What a job process has cost so far: wall and CPU seconds of itself and of all it started (the JVM, Python workers)."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import psutil


@dataclass(frozen=True, slots=True)
class ProcessCost:
    """Seconds since the process was started, and CPU-seconds of the whole family; descendants that have ended are included."""

    started_at: datetime
    wall_s: float
    cpu_s: float


def cost_so_far() -> ProcessCost:
    """Of this job. Asked before the session is stopped, while the workers' accounts can still be read.

    Started by spark-submit, the JVM is this process's parent and the family begins there; started as plain Python, it begins here.
    """
    root = family_root()
    started = root.create_time()
    return ProcessCost(datetime.fromtimestamp(started, UTC), max(0.0, time.time() - started), _family_cpu_s(root))


def family_root() -> psutil.Process:
    """The first process of this job: itself, or the spark-submit that started it."""
    me = psutil.Process()
    if "SPARK_ENV_LOADED" in os.environ:  # set by spark-submit's own script
        with suppress(psutil.Error):
            parent = me.parent()
            if parent is not None and parent.name().startswith("java"):
                return parent
    return me


def _family_cpu_s(root: psutil.Process) -> float:
    """The kernel's own accounts; each process carries those of its children that it has collected, nothing is sampled."""
    total = 0.0
    for process in [root, *root.children(recursive=True)]:
        with suppress(psutil.Error):  # it ended in this very moment; its parent has its account now
            spent = process.cpu_times()
            total += sum(getattr(spent, name, 0.0) for name in ("user", "system", "children_user", "children_system"))
    return total
