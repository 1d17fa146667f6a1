"""Who holds a lease, as it is written into the lease's newest epoch."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

import psutil

CONTINUOUS = "continuous"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds an epoch of a lease, and since when it has been renewed (epoch seconds)."""

    owner: str
    host: str
    pid: int
    process_started: float
    renewed_at: float
    released: bool = False
    yields: bool = False  # a backfill: live writers wait for it to step back
    mode: str = ""  # `continuous`: it holds the table as long as it lives, and steps aside for whoever waits
    since: float = 0.0  # when it took the lease
    until: float = 0.0  # when it means to end (0: when its work is done)

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> Holder:
        """From what was written; a newer version of the code may have said more."""
        return cls(**{name: value for name, value in written.items() if name in _FIELDS})

    @property
    def is_continuous(self) -> bool:
        return self.mode == CONTINUOUS

    def is_gone(self) -> bool:
        """True when the holder's process ran on this host and does not exist any more."""
        if self.host != socket.gethostname():
            return False
        try:
            process = psutil.Process(self.pid)
            # One that has ended may stay in the list as long as its parent does not ask how.
            return abs(process.create_time() - self.process_started) > 1 or process.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    def __str__(self) -> str:
        at = datetime.fromtimestamp(self.renewed_at, UTC).strftime("%H:%M:%S")
        return f"{self.owner} (process {self.pid} on {self.host}, last sign of life {at} UTC)"


_FIELDS = frozenset(field.name for field in fields(Holder))


def myself(owner: str, *, yields: bool = False, mode: str = "", until: float = 0.0) -> Holder:
    """This process, as it holds a lease under the name `owner`."""
    started = psutil.Process().create_time()
    return Holder(owner, socket.gethostname(), os.getpid(), started, time.time(), yields=yields, mode=mode, until=until)
