"""What each query is doing at this moment, as Spark says it: one small object per query, replaced when it changes.

`_ops.progress` tells of batches that have ended; this tells of the one that is at work, and of a query that waits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from spark_jobs.io.lake import storage
from spark_jobs.spec.settings import Settings

EVERY_LOCAL_S = 2.0  # how often a query is asked; a file on a disk costs nothing
EVERY_REMOTE_S = 30.0  # a request to an object store does: three queries, 9,000 a day, 5 cents


class QueryStates:
    """The objects `<lake>/_queries/<query>.json`: `message`, `is_data_available`, `is_trigger_active`, `run_id`, `host`, `pid`, `at`."""

    def __init__(self, settings: Settings) -> None:
        self._fs, root = storage(settings.lake_root)
        self._folder = f"{root}/_queries"
        self._last: dict[str, str] = {}
        self.every_s = EVERY_REMOTE_S if "://" in settings.lake_root else EVERY_LOCAL_S

    def write(self, query: str, state: Mapping[str, Any]) -> None:
        """Written only if it says anything new. Raises OSError."""
        text = json.dumps(state, sort_keys=True)
        if self._last.get(query) == text:
            return
        self._fs.makedirs(self._folder, exist_ok=True)
        place = f"{self._folder}/{query}.json"
        self._fs.pipe_file(f"{place}.new", json.dumps({**state, "at": datetime.now(UTC).isoformat(timespec="milliseconds")}).encode())
        self._fs.mv(f"{place}.new", place)
        self._last[query] = text

    def read(self, query: str) -> dict[str, Any] | None:
        """None for a query that never said anything; `at` is when it last said something new."""
        try:
            state: dict[str, Any] = json.loads(self._fs.cat_file(f"{self._folder}/{query}.json"))
            return {**state, "at": datetime.fromisoformat(state["at"])}
        except (FileNotFoundError, ValueError, KeyError):
            return None
