"""The mark of a writer that waits for a table, `_leases/<table>/waiting.<host>.<process>`.

A backfill that sees one of a live writer steps back; a continuous driver steps aside for any.
"""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

EVERY_S, LIFE_S = 5.0, 20.0  # a mark that was not renewed for so long is of a writer that is gone


Kind = Literal["run", "continuous", "backfill"]


@dataclass(frozen=True, slots=True)
class Mark:
    """Who waits, as what, and when it last gave a sign (epoch seconds)."""

    owner: str
    kind: Kind
    at: float


class WaitingMark:
    """`renew` at every look; taken away at the end of the `with` block."""

    def __init__(self, fs: AbstractFileSystem, folder: str, owner: str, kind: Kind = "run") -> None:
        self._fs, self._owner, self._kind = fs, owner, kind
        self._path = f"{folder}/waiting.{socket.gethostname()}.{os.getpid()}"
        self._at = 0.0

    def __enter__(self) -> WaitingMark:
        return self

    def __exit__(self, *_: object) -> None:
        if self._at:
            with suppress(OSError):  # it lapses by itself
                self._fs.rm_file(self._path)

    def renew(self) -> None:
        if time.time() - self._at > EVERY_S:
            self._at = time.time()
            self._fs.pipe_file(self._path, json.dumps({"owner": self._owner, "kind": self._kind, "at": self._at}).encode())


def marks_waiting(fs: AbstractFileSystem, folder: str) -> list[Mark]:
    """Who waits for the table of this lease folder, as far as they have given a sign lately."""
    fs.invalidate_cache(folder)
    if not fs.exists(folder):
        return []
    marks = []
    for path in fs.ls(folder, detail=False):
        if str(path).rsplit("/", 1)[-1].startswith("waiting."):
            with suppress(OSError, ValueError):  # taken away, or being written, in this very moment
                said = json.loads(fs.cat_file(str(path)))
                marks.append(Mark(str(said["owner"]), cast(Kind, said.get("kind", "run")), float(said["at"])))
    return [mark for mark in marks if time.time() - mark.at < LIFE_S]
