"""Drawing rows of a table by seed, without reading the table: its log says how many rows each file has."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.io.lake import lake_table, storage
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId


class Population:
    """The rows of a table at a version; with `days` (as text), those of these values of the partition column `date_column`."""

    def __init__(self, settings: Settings, table: TableId, version: int, seed: str, date_column: str, days: frozenset[str]) -> None:
        self._settings, self._table, self._version = settings, table, version
        self._date_column, self._days = date_column, days
        self.random = random.Random(seed)  # noqa: S311  # an audit is repeated by its seed; nobody must not guess it

    @property
    def rows(self) -> int:
        return sum(count for _, count, _ in self._files)

    def draw(self, number: int, columns: Sequence[str]) -> list[dict[str, Any]]:
        """That many rows (or all there are), each equally likely, none twice; reads only the files they are in."""
        total = self.rows
        fs, root = storage(self._settings.location(self._table))
        wanted = sorted(self.random.sample(range(total), min(number, total)))
        found: list[dict[str, Any]] = []
        ends = list(accumulate(count for _, count, _ in self._files))
        for (path, count, values), end in zip(self._files, ends, strict=True):
            mine = [index - (end - count) for index in wanted if end - count <= index < end]
            if mine:
                with fs.open(f"{root}/{path}", "rb") as file:
                    rows = pq.ParquetFile(file).read(columns=[name for name in columns if name not in values])
                found += [row | {name: values[name] for name in columns if name in values} for row in rows.take(mine).to_pylist()]
        return found

    @cached_property
    def _files(self) -> list[tuple[str, int, dict[str, str]]]:
        """Path, number of rows and partition values of each file, in an order of their own."""
        found = lake_table(self._settings, self._table, self._version)
        if found is None:
            return []
        actions = pa.table(found.get_add_actions(flatten=True)).to_pylist()
        files = []
        for action in actions:
            values = {name.removeprefix("partition."): str(value) for name, value in action.items() if name.startswith("partition.")}
            if not self._days or values.get(self._date_column) in self._days:
                files.append((unquote(action["path"]), int(action["num_records"] or 0), values))
        return sorted(files, key=lambda one: one[0])
