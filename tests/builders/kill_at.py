"""Starts a job that kills (or freezes) itself at an exact line: `python -m tests.builders.kill_at '<point>' <module> <options>`.

The product has no hooks for this: the named function is wrapped from outside before the job's module is loaded, then the job runs as if
started by `python -m`. The signal is SIGKILL, so nothing is cleaned up: no `finally`, no `atexit`, no goodbye to the JVM.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class KillPoint:
    """Before or after the n-th call of a function; or, with `appears`, while it runs, as soon as a file of that pattern is in the lake."""

    name: str
    function: str  # module:name or module:Class.name
    when: str = "before"
    call: int = 1
    appears: str = ""
    freeze: bool = False  # SIGSTOP in place of SIGKILL
    parent: bool = False  # strike the parent: under spark-submit, the JVM of which this process is a child
    job: str = "run_layers"

    def arm(self, lake: Path) -> None:
        """Wrap the function where it is defined; modules loaded after this take the wrapped one."""
        module_name, _, path = self.function.partition(":")
        owner: Any = importlib.import_module(module_name)
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        original = getattr(owner, name)
        calls = 0

        @wraps(original)
        def watched(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls != self.call:
                return original(*arguments, **named)
            if self.appears:
                threading.Thread(target=self._watch, args=(lake,), daemon=True).start()
            elif self.when == "before":
                self._strike()
            result = original(*arguments, **named)
            if not self.appears and self.when == "after":
                self._strike()
            return result

        setattr(owner, name, watched)

    def _watch(self, lake: Path) -> None:
        known = set(lake.glob(self.appears))
        while not set(lake.glob(self.appears)) - known:
            time.sleep(0.001)
        self._strike()

    def _strike(self) -> None:
        os.kill(os.getppid() if self.parent else os.getpid(), signal.SIGSTOP if self.freeze else signal.SIGKILL)


def command(point: KillPoint, job_command: list[str]) -> list[str]:
    """The command of a job (`Stack.command`) so that it meets the point."""
    python, dash_m, module, *options = job_command
    return [python, dash_m, "tests.builders.kill_at", json.dumps(asdict(point)), module, *options]


if __name__ == "__main__":
    point = KillPoint(**json.loads(sys.argv[1]))
    point.arm(Path(os.environ["ASSAY_LAKE"]))
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
