"""What a long-lived driver remembers of the file ledger, so that a look every few seconds reads only what came since the one before.

The ledger is only appended to, so what was in it once is in it. Without this a look at the end of a day, with thousands of ledger files
of that day, would read all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from spark_jobs.io.delta_log import Position, added_files
from spark_jobs.io.lake import storage
from spark_jobs.io.ledger_files import ledger_rows
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import FILES

_COLUMNS = ("file_id", "prefix_date")


class LedgerMemory:
    """The file ids of the dates that were asked for, up to the ledger's newest version that was seen."""

    def __init__(self) -> None:
        self._ids: dict[date | None, set[str]] = {}
        self._version = -1

    def known(self, settings: Settings, ledger: DeltaTable | None, dates: set[date | None]) -> pa.Table:
        """As `ledger_rows` for these dates, with the column `file_id` alone."""
        if ledger is None:
            return pa.table({"file_id": pa.array([], pa.string())})
        version = int(ledger.version())
        try:
            self._catch_up(settings, version)
        except FileNotFoundError:  # commits in between were cleaned up, or the ledger is another one
            self._ids.clear()
        if missing := dates - set(self._ids):
            self._ids |= {day: set() for day in missing}
            self._take(ledger_rows(ledger, missing, _COLUMNS))
        self._version = version
        ids = [name for day in dates for name in self._ids[day]]
        return pa.table({"file_id": pa.array(ids, pa.string())})

    def has(self, day: date | None, file_id: str) -> bool:
        """True when the ledger is known to hold this version of a file."""
        return file_id in self._ids.get(day, ())

    def _catch_up(self, settings: Settings, version: int) -> None:
        if not self._ids or version == self._version:
            return
        if version < self._version:
            raise FileNotFoundError
        fs, root = storage(settings.location(FILES))
        for added in added_files(settings, FILES, Position(self._version + 1, -1), version):
            with fs.open(f"{root}/{added.path}", "rb") as file:
                self._take(pq.read_table(file, columns=list(_COLUMNS)))

    def _take(self, rows: pa.Table) -> None:
        pairs: Iterable[tuple[str, date | None]] = zip(rows["file_id"].to_pylist(), rows["prefix_date"].to_pylist(), strict=True)
        for name, day in pairs:
            if day in self._ids:
                self._ids[day].add(name)
