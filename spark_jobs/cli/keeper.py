"""The process between `make up` and each of its servers: when either ends, in whatever way, nothing of the server's family is left.

A server cannot be trusted with this. Airflow's scheduler, asked to end while it starts its workers, waits for ever for the one that it
has not entered in its list yet; and the kernel's own signal at a parent's death reaches a child but not what the child has started.

Run as `python -m spark_jobs.cli.keeper <grace in seconds> <folder> <command …>`. Its standard input is a pipe that the process which
wants the server holds open and never writes to: at its end that process is gone.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence

from spark_jobs.cli.processes import adopt_orphans, ask_to_end_with_parent, end_family

_ASKED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


def main(arguments: Sequence[str]) -> int:
    """Keep one server until it ends, or until this process is asked to end or left alone. Returns the server's exit code."""
    grace_s, folder, *command = arguments
    adopt_orphans()
    signals = _wake_on({*_ASKED, signal.SIGCHLD})
    server = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, preexec_fn=ask_to_end_with_parent)
    code = None
    while code is None:
        ready, _, _ = select.select([sys.stdin.fileno(), signals], [], [])
        if sys.stdin.fileno() in ready or _ASKED & set(os.read(signals, 4096)):
            break
        code = _ended(server.pid)
    end_family(float(grace_s))
    return code or 0


def _wake_on(numbers: set[signal.Signals]) -> int:
    """A file descriptor that can be read when one of the signals has come: each is one byte, its number."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in numbers:
        signal.signal(number, lambda *_: None)  # a handler of any kind, so that it is heard and not the end of us
    return reading


def _ended(server: int) -> int | None:
    """Collect the children that have ended, adopted ones too; the server's exit code when it is among them, as a shell would say it."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if not pid:
            return code
        if pid == server:
            code = os.waitstatus_to_exitcode(status)
            code = code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
