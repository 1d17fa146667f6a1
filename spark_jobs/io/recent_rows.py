"""The newest rows of an `_ops` table, looked at again and again: each data file is read once, whatever the table's history."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from spark_jobs.io.lake import lake_table, rows_of_files
from spark_jobs.io.ops import SCHEMAS
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId


class RecentRows:
    """The rows of the `files` data files whose newest row is newest, by a column of time. A file holds the rows of one commit or more."""

    def __init__(self, settings: Settings, table: TableId, time: str, *, files: int) -> None:
        self._settings, self._table, self._time, self._files = settings, table, time, files
        self._found: DeltaTable | None = None
        self._version = -1
        self._parts: dict[str, list[dict[str, Any]]] = {}

    def rows(self) -> list[dict[str, Any]]:
        """Oldest first; none when the table was never written."""
        if self._found is None:
            self._found = lake_table(self._settings, self._table)
        else:
            self._found.update_incremental()
        if self._found is None:
            return []
        if self._found.version() != self._version:
            self._version = self._found.version()
            names = self._newest(pa.table(self._found.get_add_actions(flatten=True)))
            known = self._parts
            self._parts = {name: known[name] if name in known else self._read(self._found, name) for name in names}
        return sorted((row for part in self._parts.values() for row in part), key=lambda row: row[self._time])

    def _read(self, found: DeltaTable, name: str) -> list[dict[str, Any]]:
        schema = SCHEMAS[self._table]
        rows: list[dict[str, Any]] = rows_of_files(found, schema, [name]).to_table(columns=schema.names).to_pylist()
        return rows

    def _newest(self, files: pa.Table) -> list[str]:
        column = f"max.{self._time}"
        if column in files.column_names:
            files = files.take(pc.sort_indices(files[column], sort_keys=[("", "descending")]))
        names: list[str] = files["path"].to_pylist()
        return names[: self._files]
