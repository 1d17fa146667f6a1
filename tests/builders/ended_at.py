"""Ends a driver that runs in this process at an exact line, by an exception in the place of a signal: its session can be used again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from unittest import mock

import pytest


class Ended(Exception):
    """Stands for the end of the driver at that line."""


@contextlib.contextmanager
def ended_at(module: ModuleType, name: str, when: str = "before", call: int = 1) -> Iterator[None]:
    """`with ended_at(...): stack.run()` ends before or after the n-th call of that function; a run that does not come by fails the test."""
    original, calls = getattr(module, name), 0

    def watched(*arguments, **named):
        nonlocal calls
        calls += 1
        if calls == call and when == "before":
            raise Ended
        result = original(*arguments, **named)
        if calls == call:
            raise Ended
        return result

    with mock.patch.object(module, name, watched), pytest.raises(Ended):
        yield
