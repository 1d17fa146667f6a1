"""Who lost a table: seen in the epochs of its lease, where one that was not given back is followed by another."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.io.lake import storage
from spark_jobs.spec.alert_facts import Takeover
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings

Row = dict[str, Any]


def takeovers(settings: Settings, pipeline: Pipeline, *, since: datetime, books: Callable[[], pa.Table]) -> list[Takeover]:
    """One for each writer that lost its tables, oldest first; a writer of many tables loses them together."""
    lost: dict[str, list[tuple[str, int, Row, Row]]] = {}
    for table in map(str, pipeline.all_tables):
        epochs = _epochs(settings, table)
        for epoch, before in epochs.items():
            after = epochs.get(epoch + 1)
            if after and not before.get("released") and after["renewed_at"] >= since.timestamp():
                which = f"{before['owner']}|{before['host']}|{before['pid']}|{before['process_started']:.0f}"
                is_over = bool(after.get("released")) or epoch + 2 in epochs  # the one after it lost it too: that is told of its own
                lost.setdefault(which, []).append((table, epoch + 1, before, after | {"is_over": is_over}))
    return [_takeover(which, tables, books) for which, tables in lost.items()]


def _takeover(which: str, tables: list[tuple[str, int, Row, Row]], books: Callable[[], pa.Table]) -> Takeover:
    _, _, before, after = tables[0]
    done = [_moment(one["renewed_at"]) for _, _, _, one in tables if one["is_over"]]
    for table, epoch, _, _ in tables:
        done += books().filter((pc.field("table") == table) & (pc.field("epoch") == epoch))["finished_at"].to_pylist()
    at = _moment(before["renewed_at"])  # its last sign of life: the new one's first is not kept
    return Takeover(tuple(table for table, *_ in tables), _named(before), _named(after), which, at, min(done, default=None))


def _named(holder: Row) -> str:
    return f"{holder['owner']} (process {holder['pid']} on {holder['host']})"


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _epochs(settings: Settings, table: str) -> dict[int, Row]:
    fs, root = storage(settings.lake_root)
    folder = f"{root}/_leases/{table}"
    fs.invalidate_cache(folder)
    if not fs.exists(folder):
        return {}
    found = {}
    for path in fs.ls(folder, detail=False):
        name = str(path).rsplit("/", 1)[-1]
        if name.isdigit():
            with suppress(ValueError, KeyError, FileNotFoundError):  # just being written, or just removed
                holder = json.loads(fs.cat_file(path))
                if {"owner", "host", "pid", "process_started", "renewed_at"} <= holder.keys():
                    found[int(name)] = holder
    return found
