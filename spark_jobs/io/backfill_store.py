"""The states of backfills and their chunks: `_ops.backfills` and `_ops.backfill_chunks`, append-only, the newest row per id counts.

Every change of a chunk's state is a compare-and-set on the version of the table that the decision was made with, so that of two claimers,
or of a claimer and a person who cancels, exactly one succeeds. Who is at work on a chunk also holds its lease, which says whether that
process is still alive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, write_deltalake
from deltalake.exceptions import CommitFailedError

from spark_jobs.io.lake import lake_table, rows_of
from spark_jobs.io.lease import Holder, Lease
from spark_jobs.io.ops import SCHEMAS, Ops
from spark_jobs.spec.backfill import OPEN, check_name
from spark_jobs.spec.errors import AssayError, UnknownName
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import BACKFILL_CHUNKS, BACKFILLS, TableId

ATTEMPTS = 20
Row = dict[str, Any]


class BackfillStore:
    """Reads and moves the states of one lake's backfills."""

    def __init__(self, settings: Settings, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._settings, self._clock = settings, clock
        self._ops = Ops(settings)

    def save(self, backfill: Mapping[str, Any], chunks: Sequence[Mapping[str, Any]]) -> None:
        """A new plan: its chunks first, so that a plan that is there is whole; what a killed try has left is taken out."""
        name = check_name(str(backfill["backfill_id"]))
        if self._rows(BACKFILL_CHUNKS, name):
            found = lake_table(self._settings, BACKFILL_CHUNKS)
            assert found is not None  # it has rows
            found.delete(f"backfill_id = '{name}'")
        self._ops.append(BACKFILL_CHUNKS, [{**row, "at": self._clock()} for row in chunks])
        self._ops.append(BACKFILLS, [{**backfill, "at": self._clock()}])

    def all(self, pipeline: str = "") -> list[Row]:
        """Every backfill in its present state, the newest first."""
        wanted = (pc.field("pipeline") == pipeline) if pipeline else None
        rows = sorted(self._ops.read(BACKFILLS, filter=wanted).to_pylist(), key=lambda row: row["at"])
        latest = {row["backfill_id"]: row for row in rows}
        first = {row["backfill_id"]: row["at"] for row in reversed(rows)}
        return sorted(latest.values(), key=lambda row: first[row["backfill_id"]], reverse=True)

    def find(self, backfill_id: str) -> Row | None:
        rows = self._rows(BACKFILLS, check_name(backfill_id))
        return max(rows, key=lambda row: row["at"], default=None)

    def get(self, backfill_id: str) -> Row:
        """The present state of a backfill; raises UnknownName."""
        found = self.find(backfill_id)
        if found is None:
            raise UnknownName(f"There is no backfill {backfill_id}. `assay backfill status` lists them; `assay backfill plan` makes one.")
        return found

    def note(self, backfill_id: str, state: str, **changes: Any) -> Row:
        """Append a new state of a backfill, which keeps all else that is known of it."""
        row = self.get(backfill_id) | {"state": state, **changes, "at": self._clock()}
        self._ops.append(BACKFILLS, [row])
        return row

    def chunks(self, backfill_id: str) -> list[Row]:
        """The chunks in their present states, in order; `content` is that of the plan."""
        return _latest(self._rows(BACKFILL_CHUNKS, check_name(backfill_id)))

    def chunk(self, backfill_id: str, number: int) -> Row:
        """One chunk in its present state; raises UnknownName."""
        for row in self.chunks(backfill_id):
            if row["chunk"] == number:
                return row
        self.get(backfill_id)
        raise UnknownName(f"Backfill {backfill_id} has no chunk {number}. `assay backfill status {backfill_id}` lists what it has.")

    def move(self, backfill_id: str, choose: Callable[[Row], Mapping[str, Any] | None]) -> list[Row]:
        """Change the state of every chunk for which `choose(chunk)` gives changes, all in one commit, and return their new rows.

        When somebody else has changed any chunk meanwhile, `choose` is asked again about the chunks as they are then.
        """
        check_name(backfill_id)
        schema = SCHEMAS[BACKFILL_CHUNKS]
        for _ in range(ATTEMPTS):
            table = lake_table(self._settings, BACKFILL_CHUNKS)
            if table is None:
                return []
            rows = rows_of(table, schema).to_table(filter=pc.field("backfill_id") == backfill_id).to_pylist()
            now = max([self._clock(), *(row["at"] + timedelta(microseconds=1) for row in rows)])  # the newest row counts
            moved = [row | dict(changes) | {"at": now} for row in _latest(rows) if (changes := choose(row)) is not None]
            if not moved:
                return []
            columns = {name: pa.array([None if name == "content" else row[name] for row in moved], schema.field(name).type)
                       for name in schema.names}  # fmt: skip
            try:
                write_deltalake(
                    table, pa.table(columns, schema=schema), mode="append", commit_properties=CommitProperties(max_commit_retries=0)
                )
                return moved
            except CommitFailedError:
                continue
        raise AssayError(f"The chunks of {backfill_id} were changed by others {ATTEMPTS} times in a row; nothing was changed. Run again.")

    def worker(self, backfill_id: str, number: int) -> Holder | None:
        """The living process that is at work on a chunk."""
        return Lease(self._settings, chunk_lease_name(backfill_id, number), "").holder()

    def close_if_finished(self, backfill_id: str) -> Row:
        """The backfill; `done`, or `cancelled` when some of its chunks were, once no chunk is left, with what they took."""
        chunks = self.chunks(backfill_id)
        if any(chunk["state"] in OPEN for chunk in chunks):
            return self.get(backfill_id)
        done = [chunk for chunk in chunks if chunk["state"] == "done"]
        sums = {f"actual_{name}": sum(chunk[column] or 0.0 for chunk in done) for name, column in (("s", "wall_s"), ("cpu_s", "cpu_s"))}
        return self.note(backfill_id, "done" if len(done) == len(chunks) else "cancelled", **sums)

    def _rows(self, table: TableId, backfill_id: str) -> list[Row]:
        return list(self._ops.read(table, filter=pc.field("backfill_id") == backfill_id).to_pylist())


def chunk_lease_name(backfill_id: str, number: int) -> TableId:
    return TableId("_ops", f"{check_name(backfill_id)}_{number}")


def _latest(rows: Sequence[Row]) -> list[Row]:
    content = {row["chunk"]: row["content"] for row in rows if row["content"] is not None}
    latest = {row["chunk"]: row for row in sorted(rows, key=lambda row: row["at"])}
    return [row | {"content": content.get(number)} for number, row in sorted(latest.items())]
