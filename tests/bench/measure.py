"""Processor time and memory of a process with everything it starts, however it ends.

Processor time is the kernel's own account: this process becomes the adopter of orphans (PR_SET_CHILD_SUBREAPER), so that Python workers
that outlive their JVM come back here, and every process that ends is collected by wait4, whose figures include what that process itself
had collected. Nothing is sampled, so nothing short is missed. Memory is sampled: proportional set size (shared pages are divided among
those that share them, which matters for forked workers), four times a second.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_EVERY_S = 0.25
_LEFT_OVER_S = 20  # how long orphans may take to notice that their parent has gone
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """What one command took, with all its processes."""

    cpu_s: float
    wall_s: float
    peak_mb: Mapping[str, float] = field(default_factory=dict)  # of jvm, python driver, workers, and of all at one moment
    output: str = ""

    def __add__(self, other: Cost) -> Cost:
        peaks = {name: max(self.peak_mb.get(name, 0), other.peak_mb.get(name, 0)) for name in {*self.peak_mb, *other.peak_mb}}
        return Cost(self.cpu_s + other.cpu_s, self.wall_s + other.wall_s, peaks, self.output + other.output)


def measure(command: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path) -> Cost:
    """Run a command to its end, its stderr to `log`; raises CalledProcessError when it fails. No other child of this process may run."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with log.open("wb") as errors:
        process = subprocess.Popen(command, env=dict(env), cwd=cwd, stdout=subprocess.PIPE, stderr=errors)
    sampler = _Sampler()
    assert process.stdout is not None
    with sampler:
        output = process.stdout.read().decode(errors="replace")
        cpu_s, exit_code = _collect(process.pid)
    process.returncode = exit_code  # collected here, so Popen must not look for it
    process.stdout.close()
    if exit_code:
        raise subprocess.CalledProcessError(exit_code, list(command), output, log.read_text(errors="replace")[-4000:])
    return Cost(cpu_s, time.monotonic() - started, sampler.peak_mb, output)


def _collect(main: int) -> tuple[float, int]:
    """Wait for every child, adopted ones too; returns their CPU-seconds and the exit code of `main`."""
    cpu_s, exit_code, deadline = 0.0, 0, 0.0
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG if deadline else 0)
        except ChildProcessError:
            return cpu_s, exit_code
        if pid:
            cpu_s += usage.ru_utime + usage.ru_stime
        if pid == main:
            exit_code, deadline = os.waitstatus_to_exitcode(status), time.monotonic() + _LEFT_OVER_S
        if not pid:
            if time.monotonic() > deadline:
                for orphan in psutil.Process().children(recursive=True):
                    orphan.kill()
            time.sleep(0.02)


class _Sampler:
    """Watches the memory of all processes below this one."""

    def __init__(self) -> None:
        self.peak_mb: dict[str, float] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(_EVERY_S):
            now: dict[str, float] = {}
            for process in psutil.Process().children(recursive=True):
                try:
                    kind, size = _kind(process.cmdline()), _proportional_mb(process.pid)
                except (psutil.Error, OSError):
                    continue
                now[kind] = now.get(kind, 0) + size
                now["all"] = now.get("all", 0) + size
            for kind, size in now.items():
                self.peak_mb[kind] = max(size, self.peak_mb.get(kind, 0))


def _kind(command: Sequence[str]) -> str:
    if command and command[0].endswith("java"):
        return "jvm"
    return "workers" if "pyspark.daemon" in command else "python driver"


def _proportional_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1000
    return 0


def tree_cpu_s(root: int) -> float:
    """CPU-seconds so far of a live process and everything below it, ended descendants included."""
    total = 0.0
    for process in [psutil.Process(root), *psutil.Process(root).children(recursive=True)]:
        try:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15])) / _TICKS  # utime stime cutime cstime: fields 14 to 17 of proc(5), counted after the name
    return total
