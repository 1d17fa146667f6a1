"""Why and when a continuous driver ends. Asked for by a signal, a person, a fault or its lifetime; done at a batch boundary."""

from __future__ import annotations

import signal
import threading
import time
from typing import Literal

Why = Literal["", "lifetime", "signal", "asked", "handed_over", "fault"]


class Ended(Exception):
    """Raised out of a wait for others, once the driver is to end."""


class Ending:
    """Shared by all threads of a driver. The first reason is the one that is told."""

    def __init__(self, lifetime_s: float) -> None:
        self.began_at = time.time()
        self._lifetime_s = lifetime_s
        self._until = float("inf")
        self._asked = threading.Event()
        self._why: Why = ""
        self.sentence = ""

    def begin_lifetime(self) -> float:
        """From now on the lifetime counts; returns its end (epoch seconds)."""
        self._until = time.monotonic() + self._lifetime_s
        return time.time() + self._lifetime_s

    def on_signals(self) -> None:
        """SIGTERM and SIGINT ask for the end, in a process whose main thread calls this."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda number, _: self.ask("signal", f"{signal.Signals(number).name} was received."))

    def ask(self, why: Why, sentence: str) -> None:
        if not self._asked.is_set():
            self._why, self.sentence = why, sentence
            self._asked.set()

    @property
    def left_s(self) -> float:
        return self._until - time.monotonic()

    @property
    def why(self) -> Why:
        """Empty while the driver goes on."""
        if not self._asked.is_set() and self.left_s <= 0:
            self.ask("lifetime", f"Its lifetime of {self._lifetime_s / 60:g} min is over.")
        return self._why

    def wait(self, seconds: float) -> bool:
        """Sleep, at most until the end; True when it has come."""
        self._asked.wait(max(0.0, min(seconds, self.left_s)))
        return bool(self.why)

    def check(self) -> None:
        """Raises Ended when the driver is to end."""
        if self.why:
            raise Ended
