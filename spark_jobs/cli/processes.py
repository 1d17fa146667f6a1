"""Child processes that never outlive us: each in its own session, ended as a family, orphans included."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

_LIBC = ctypes.CDLL(None, use_errno=True)  # before any fork, where loading is not safe
GRACE_S = 15  # a Spark driver or the scheduler needs a few seconds to end by itself
PROJECT = Path(__file__).resolve().parents[2]
_kept: list[subprocess.Popen[bytes]] = []  # for as long as we live: where the pipe to a keeper ends, it ends what it keeps


def adopt_orphans() -> None:
    """Make this process the parent of any descendant whose own parent dies (Linux), so that none is out of reach.

    Without this a JVM whose task runner was killed would belong to process 1. Source: prctl(2), PR_SET_CHILD_SUBREAPER = 36.
    """
    if sys.platform == "linux":
        _LIBC.prctl(36, 1, 0, 0, 0)


def ask_to_end_with_parent() -> None:
    """Runs in a child before its command (Linux). Source: prctl(2), PR_SET_PDEATHSIG = 1."""
    if sys.platform == "linux":
        _LIBC.prctl(1, signal.SIGTERM, 0, 0, 0)


def start(
    command: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: IO[bytes], grace_s: float = GRACE_S
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, under a keeper; Ctrl-C in the terminal reaches us alone, and we end it in order.

    The process answered is the keeper: it ends when the command does, with its exit code. Should we be killed without a chance to end
    the command, the keeper does, and kills what is left of its family after `grace_s` seconds.
    """
    keeper = subprocess.Popen(
        [sys.executable, "-m", "spark_jobs.cli.keeper", str(grace_s), str(cwd), *command],
        env=dict(env), cwd=PROJECT, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
    )  # fmt: skip
    _kept.append(keeper)
    return keeper


def end_family(grace_s: float = GRACE_S) -> int:
    """End all descendants: first asked, and killed after `grace_s` seconds. Returns how many had to be killed.

    Keepers are not asked, since they would ask their servers a second time; they end when these have ended.
    """
    keepers = {keeper.pid for keeper in _kept}
    family = [member for member in psutil.Process().children(recursive=True) if member.pid not in keepers]
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.terminate()
    _, stubborn = psutil.wait_procs(family, timeout=grace_s)
    while left := [member for member in psutil.Process().children(recursive=True) if _is_alive(member)]:
        for member in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        psutil.wait_procs(left, timeout=5)
    _reap()
    return len(stubborn)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _reap() -> None:
    """Collect adopted children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def on_end_signals(handler: object) -> None:
    """Let Ctrl-C, SIGTERM and a closed terminal all do the same."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)  # type: ignore[arg-type]  # a signal handler
