"""What runs leave beside the tables: epochs of leases, and generations of checkpoints that a newer one has replaced."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from spark_jobs.io.generation import GENERATION_FILE
from spark_jobs.io.lake import storage
from spark_jobs.io.lease import KEPT_EPOCHS
from spark_jobs.spec.settings import Settings


def remove_old_epochs(settings: Settings) -> int:
    """Remove the epochs of each lease that its next takers will not even look for. Returns how many.

    A taker removes those just behind it itself, and must not find that somebody else did so at that moment.
    """
    fs, root = storage(f"{settings.lake_root}/_leases")
    removed = 0
    for folder in _children(fs, root):
        epochs = sorted(int(name) for name in _names(fs, f"{root}/{folder}") if name.isdigit())
        for epoch in epochs:
            if epoch <= epochs[-1] - 3 * KEPT_EPOCHS:
                with suppress(FileNotFoundError):  # another maintenance is at work
                    fs.rm_file(f"{root}/{folder}/{epoch:08d}")
                    removed += 1
    return removed


def remove_old_generations(settings: Settings, *, before: datetime) -> list[str]:
    """Remove checkpoint generations that a newer one, which has finished a batch, replaced before that time. Returns their places."""
    fs, root = storage(f"{settings.lake_root}/_checkpoints")
    removed = []
    for query in _children(fs, root):
        names = sorted((name for name in _children(fs, f"{root}/{query}") if name[:1] == "v" and name[1:].isdigit()), key=_number)
        if len(names) < 2 or not _is_in_use(fs, f"{root}/{query}/{names[-1]}", before):
            continue
        for name in names[:-1]:
            fs.rm(f"{root}/{query}/{name}", recursive=True)
            removed.append(f"{query}/{name}")
    return removed


def _is_in_use(fs: object, generation: str, before: datetime) -> bool:
    """True when the generation was begun before that time and has finished a batch."""
    made = f"{generation}/{GENERATION_FILE}"
    return bool(fs.exists(made) and fs.modified(made) < before and _names(fs, f"{generation}/commits"))  # type: ignore[attr-defined]


def _number(name: str) -> int:
    return int(name[1:])


def _names(fs: object, folder: str) -> list[str]:
    if not fs.exists(folder):  # type: ignore[attr-defined]
        return []
    return [str(path).rstrip("/").rsplit("/", 1)[-1] for path in fs.ls(folder, detail=False)]  # type: ignore[attr-defined]


def _children(fs: object, folder: str) -> list[str]:
    """The folders in a folder."""
    return sorted(name for name in _names(fs, folder) if fs.isdir(f"{folder}/{name}"))  # type: ignore[attr-defined]
