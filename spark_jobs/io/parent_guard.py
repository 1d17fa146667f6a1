"""A job ends with those who started it: no driver writes on after its task is gone, to be doubled by the task's next try.

A killed task runner leaves its driver behind: the JVM goes on, and with it the Python driver and its workers. The job's own Python
process watches instead, and ends all of the job when one of its guardians (spark_jobs.spec.guarding) has died, by whatever signal.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

import psutil

from spark_jobs.io.process_cost import family_root
from spark_jobs.spec.guarding import guardians

LOOK_EVERY_S = 1.0  # where the kernel cannot say when a process ends
LAST_WORDS_S = 10.0  # for a driver whose JVM has died, to say so and write it down


def guard_parent() -> None:
    """From now on this process, its JVM and its workers end when a guardian does; at once, if one is gone already.

    They are killed, without a chance to finish a batch: whoever looks for the next moment to stop may not find one for minutes, and a
    job that is killed at any line ends in the same tables after its next run. The JVM goes first, so that nothing writes any more when
    this process, and with it the leases, is gone. Started by spark-submit, a job whose JVM died ends too.
    """
    pids = guardians(os.environ)
    jvm = family_root().pid
    if jvm != os.getpid():
        pids.append(jvm)
    if pids:
        threading.Thread(target=_guard, args=(pids, jvm), name="parent-guard", daemon=True).start()


def _guard(pids: Sequence[int], jvm: int) -> None:
    died = _first_to_die(pids)
    if died == jvm:
        time.sleep(LAST_WORDS_S)
    end_job(f"Process {died}, which this job must not outlive, has ended.")


def _first_to_die(pids: Sequence[int]) -> int:
    """Wait until one of these ancestors has ended, and say which."""
    ancestors = _ancestors()
    with suppress(OSError, AttributeError):  # a system without pidfd_open(2): Linux has it since 5.3
        watched = {os.pidfd_open(pid): pid for pid in pids if pid in ancestors}  # type: ignore[attr-defined, unused-ignore]
        ancestors = _ancestors()  # a number that was given to another one since
        if gone := [pid for pid in pids if pid not in ancestors]:
            return gone[0]
        poll = select.poll()
        for descriptor in watched:
            poll.register(descriptor, select.POLLIN)
        return watched[poll.poll()[0][0]]
    while True:
        for pid in pids:
            if pid not in ancestors or _has_ended(ancestors[pid]):
                return pid
        time.sleep(LOOK_EVERY_S)


def _has_ended(process: psutil.Process) -> bool:
    try:
        return bool(not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _ancestors() -> dict[int, psutil.Process]:
    while True:
        with suppress(psutil.NoSuchProcess):  # one of them died in this very moment: who is left is told by the next look
            return {ancestor.pid: ancestor for ancestor in psutil.Process().parents()}


def end_job(why: str) -> None:
    """Kill the JVM, then all other processes of the job, then this one."""
    root = family_root()
    with suppress(psutil.Error):
        for process in [root, *root.children(recursive=True)]:
            if process.pid != os.getpid():
                with suppress(psutil.Error):
                    process.kill()
    for process in psutil.Process().children(recursive=True):  # under spark-submit the JVM's death has parted us
        with suppress(psutil.Error):
            process.kill()
    with suppress(OSError):  # nobody may be left to read it, and nobody may keep us from ending
        os.set_blocking(sys.stderr.fileno(), False)
        os.write(sys.stderr.fileno(), f"{why} Nothing more is written; the next run goes on from what was committed.\n".encode())
    os._exit(1)
