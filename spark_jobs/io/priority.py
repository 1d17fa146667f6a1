"""Giving way to live runs on the processor too: a backfill's processes are nice."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import psutil

# A live run beside it gets three quarters of a contended core (CFS weights 1024 and 335), a backfill alone all of it. Not more: beside
# other programs a starved backfill would hold the leases that live runs wait for.
NICE = 5


def give_way(root: psutil.Process) -> None:
    """Lower the priority of a process and all it has started; what they start later inherits it. Never fails.

    Linux keeps a priority for each thread, so a JVM that is already running has to be asked thread by thread.
    """
    for process in [root, *root.children(recursive=True)]:
        with suppress(psutil.Error, OSError):
            if sys.platform == "linux":
                for thread in os.listdir(f"/proc/{process.pid}/task"):
                    with suppress(OSError):
                        os.setpriority(os.PRIO_PROCESS, int(thread), NICE)
            else:
                process.nice(NICE)
