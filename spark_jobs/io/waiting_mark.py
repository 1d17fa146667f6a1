"""The mark of a live writer that waits for a table, `_leases/<table>/waiting.<host>.<process>`: a backfill that sees it steps back."""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

EVERY_S, LIFE_S = 5.0, 20.0  # a mark that was not renewed for so long is of a writer that is gone


class WaitingMark:
    """`renew` at every look; taken away at the end of the `with` block."""

    def __init__(self, fs: AbstractFileSystem, folder: str, owner: str) -> None:
        self._fs, self._owner = fs, owner
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
            self._fs.pipe_file(self._path, json.dumps({"owner": self._owner, "at": self._at}).encode())


def owners_waiting(fs: AbstractFileSystem, folder: str) -> list[str]:
    """Who waits for the table of this lease folder, as far as they have given a sign lately."""
    fs.invalidate_cache(folder)
    if not fs.exists(folder):
        return []
    marks = []
    for path in fs.ls(folder, detail=False):
        if str(path).rsplit("/", 1)[-1].startswith("waiting."):
            with suppress(OSError, ValueError):  # taken away, or being written, in this very moment
                marks.append(json.loads(fs.cat_file(str(path))))
    return [mark["owner"] for mark in marks if time.time() - mark["at"] < LIFE_S]
