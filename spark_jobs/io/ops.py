"""The `_ops` tables: what Assay knows about its own work. Written by delta-rs alone, read without a JVM.

The tables are small next to the data (a few rows per batch); each keeps a checkpoint every CHECKPOINT_EVERY commits, since opening a
table of 200 commits without one took Spark 8 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import reduce
from itertools import chain
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from spark_jobs.io.lake import lake_table, rows_of, rows_that_may
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import (
    AMENDMENTS,
    AUDITS,
    BACKFILL_CHUNKS,
    BACKFILLS,
    BOOKS,
    CONSUMERS,
    DECISIONS,
    DISMISSALS,
    FILE_OUTCOMES,
    FILES,
    INCIDENTS,
    MAINTENANCE,
    PROGRESS,
    QUERY_EVENTS,
    RUNS,
    SWEEPS,
    VERDICTS,
    TableId,
)

CHECKPOINT_EVERY = 20

_TIME = pa.timestamp("us", tz="UTC")


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


_S, _I, _B, _F, _D = pa.string(), pa.int64(), pa.bool_(), pa.float64(), pa.date32()

SCHEMAS: Mapping[TableId, pa.Schema] = {
    FILES: _schema(
        pipeline=_S, path=_S, size=_I, version=_S, file_id=_S, modified_at=_TIME, prefix_date=pa.date32(), attempt=pa.int32(),
        state=_S, reason=_S, admitted=_S, chunk=_S, listed_at=_TIME, run_id=_S,
    ),
    FILE_OUTCOMES: _schema(
        pipeline=_S, file_id=_S, path=_S, attempt=pa.int32(), outcome=_S, rule=_S, reason=_S, heals=_B, sha256=_S, bytes=_I,
        inflated_bytes=_I, records=_I, quarantined=_I, notes=_S, batch_id=_S, run_id=_S, read_at=_TIME,
    ),
    BOOKS: _schema(
        pipeline=_S, layer=_S, table=_S, batch_id=_S, run_id=_S, read=_I, written=_I, quarantined=_I, duplicate=_I, held=_I,
        files_read=_I, files_ok=_I, files_failed=_I, is_balanced=_B, equation=_S, outcome=_S, decision=_S, source_version=_I,
        target_version=_I, epoch=_I, started_at=_TIME, finished_at=_TIME,
    ),
    VERDICTS: _schema(
        verdict_id=_S, pipeline=_S, layer=_S, table=_S, batch_id=_S, run_id=_S, suite=_S, outcome=_S, sentence=_S, expectation=_S,
        column=_S, severity=_S, success=_B, expected=_S, observed=_S, element_count=_I, unexpected_count=_I, sample=_S, exception=_S,
        evaluated_at=_TIME,
    ),
    DECISIONS: _schema(
        decision_id=_S, pipeline=_S, table=_S, batch_id=_S, decision=_S, who=_S, note=_S, decided_at=_TIME,
    ),
    SWEEPS: _schema(pipeline=_S, root=_S, listed=_I, new=_I, swept_at=_TIME, run_id=_S),
    RUNS: _schema(
        pipeline=_S, run_id=_S, job=_S, layers=_S, files=_I, bytes=_I, records=_I, wall_s=_F, cpu_s=_F, is_small=_B, backfill_id=_S,
        started_at=_TIME, finished_at=_TIME,
    ),
    AMENDMENTS: _schema(
        pipeline=_S, table=_S, window_start=_TIME, window_end=_TIME, key=_S, before=_S, after=_S, events=_I, late_s=_I, files=_S,
        brought_by=_S, silver_version=_I, batch_id=_S, run_id=_S, amended_at=_TIME,
    ),
    AUDITS: _schema(
        audit_id=_S, pipeline=_S, table=_S, run_id=_S, mode=_S, cells=_I, cells_total=_I, mismatched=_I, silver_version=_I,
        gold_version=_I, from_date=_D, to_date=_D, is_equal=_B, mismatches=_S, sentence=_S, audited_at=_TIME,
    ),
    DISMISSALS: _schema(pipeline=_S, table=_S, fingerprint=_S, rule=_S, rows=_I, who=_S, note=_S, up_to=_TIME, dismissed_at=_TIME),
    BACKFILLS: _schema(
        backfill_id=_S, pipeline=_S, what=_S, state=_S, from_date=_D, to_date=_D, accounts=_S, regions=_S, source=_S, is_newest_first=_B,
        chunks=_I, files=_I, bytes=_I, records=_I, overlap_files=_I, predicted_s=_F, predicted_cpu_s=_F, actual_s=_F, actual_cpu_s=_F,
        plan=_S, who=_S, run_id=_S, at=_TIME,
    ),
    BACKFILL_CHUNKS: _schema(
        backfill_id=_S, pipeline=_S, chunk=_I, state=_S, first_date=_D, last_date=_D, files=_I, bytes=_I, content=_S, claimed_by=_S,
        run_id=_S, wall_s=_F, cpu_s=_F, at=_TIME,
    ),
    CONSUMERS: _schema(name=_S, table=_S, checkpoint=_S, version=_I, state=_S, who=_S, note=_S, at=_TIME),
    MAINTENANCE: _schema(
        pipeline=_S, table=_S, action=_S, files_before=_I, files_after=_I, removed=_I, bytes=_I, kept_from_version=_I, held_back_by=_S,
        sentence=_S, run_id=_S, done_at=_TIME,
    ),
    PROGRESS: _schema(
        pipeline=_S, table=_S, run_id=_S, batch_id=_S, mode=_S, input_rows=_I, input_rows_per_s=_F, processed_rows_per_s=_F,
        duration_ms=_I, phases=_S, batch_bytes=_I, batch_limit=_I, lag_files=_I, lag_bytes=_I, lag_minutes=_F, state_rows=_I,
        state_bytes=_I, source_version=_I, target_version=_I, targets=_S, newest_event_at=_TIME, host=_S, pid=_I,
        started_at=_TIME, at=_TIME, day=_D,
    ),
    QUERY_EVENTS: _schema(
        pipeline=_S, table=_S, run_id=_S, event=_S, mode=_S, error=_S, sentence=_S, host=_S, pid=_I, at=_TIME,
    ),
    INCIDENTS: _schema(
        incident_id=_S, pipeline=_S, rule=_S, subject=_S, state=_S, severity=_S, sentence=_S, channels=_S, who=_S, note=_S, until=_TIME,
        since=_TIME, run_id=_S, at=_TIME,
    ),
}  # fmt: skip

# Failed readings are asked for at every discover: a partition of their own keeps that from scanning all outcomes ever. Progress is
# twenty thousand rows a day, read by recent time and removed by the day.
PARTITIONS: Mapping[TableId, list[str]] = {FILE_OUTCOMES: ["outcome"], PROGRESS: ["day"]}

# Old commits are removed by maintenance, which knows who has still to read them.
CONFIGURATION = {"delta.checkpointInterval": str(CHECKPOINT_EVERY), "delta.enableExpiredLogCleanup": "false"}


class Ops:
    """Reads and writes the `_ops` tables of one lake."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def exists(self, table: TableId) -> bool:
        return lake_table(self._settings, table) is not None

    def read(
        self, table: TableId, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, *,
        equal: Mapping[str, object] | None = None, present: Sequence[str] = (), since: Mapping[str, datetime] | None = None,
    ) -> pa.Table:  # fmt: skip
        """Rows as Arrow, with the declared schema; an empty table when nothing was ever written.

        `equal`, `present`, `since`: only rows with these values, with these columns not null, and from these times on. Said this way
        and not in `filter`, they choose the data files too, so that what a run asks about itself costs the same whatever the history.
        """
        schema = SCHEMAS[table]
        wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
        found = lake_table(self._settings, table)
        if found is None:
            return wanted.empty_table()
        if not equal and not present and not since:
            return rows_of(found, schema).to_table(columns=wanted.names, filter=filter).cast(wanted)
        conditions = [pc.field(name) == value for name, value in (equal or {}).items()] + [pc.field(name).is_valid() for name in present]
        conditions += [pc.field(name) >= moment for name, moment in (since or {}).items()]
        within = reduce(and_, conditions if filter is None else [*conditions, filter])
        rows = rows_that_may(found, schema, equal or {}, present, since).to_table(columns=wanted.names, filter=within)
        return rows.cast(wanted)

    def append(self, table: TableId, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows; nothing is written when there are none. Raises ValueError for a column that the table does not have."""
        if rows:
            self._write(table, rows, mode="append")

    def append_unless(self, table: TableId, rows: Sequence[Mapping[str, Any]], unless: pc.Expression) -> list[dict[str, Any]]:
        """Add rows unless there are some of which `unless` is true; returns those. A compare-and-set: of two that try at once, one adds."""
        while True:
            found = lake_table(self._settings, table)
            if found is None:
                found = DeltaTable.create(
                    self._settings.location(table),
                    SCHEMAS[table],
                    mode="ignore",
                    partition_by=PARTITIONS.get(table),
                    configuration=CONFIGURATION,
                )
            there = rows_of(found, SCHEMAS[table]).to_table(filter=unless).to_pylist()
            if there:
                return there
            try:
                self._write_once(found, table, rows, mode="append", retries=0)
                return []
            except CommitFailedError:  # somebody has written in between: look again
                continue

    def replace_batch(self, table: TableId, *, of: TableId, batch_id: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Make `rows` the only rows of batch `batch_id` of the table `of`, in one commit, so that a replayed batch changes nothing."""
        column = "table" if "table" in SCHEMAS[table].names else "pipeline"
        value = str(of) if column == "table" else str(rows[0]["pipeline"]) if rows else ""
        known = self.read(table, ["batch_id"], equal={"batch_id": batch_id, column: value})
        if known.num_rows == 0:
            self.append(table, rows)
        else:
            self._write(table, rows, mode="overwrite", predicate=f"\"{column}\" = '{value}' AND batch_id = '{batch_id}'")

    @retry(
        retry=retry_if_exception_type(CommitFailedError),
        stop=stop_after_attempt(8),
        wait=wait_random_exponential(0.05, max=2),
        reraise=True,
    )
    def replace_batch_stream(self, table: TableId, *, of: TableId, batch_id: str, rows: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        """As `replace_batch`, for more rows than memory should hold: `rows` gives them in pieces, and is called again when a try failed.

        Nothing is written when there are none and the batch has none in the table.
        """
        mine = (pc.field("table") == str(of)) & (pc.field("batch_id") == batch_id)
        predicate = f"\"table\" = '{of}' AND batch_id = '{batch_id}'"
        found = lake_table(self._settings, table)
        was_written = found is not None and rows_of(found, SCHEMAS[table]).count_rows(filter=mine) > 0
        pieces = rows()
        first = next(pieces, None)
        if first is not None:
            write_deltalake(
                found or self._settings.location(table),
                pa.RecordBatchReader.from_batches(SCHEMAS[table], chain([first], pieces)),
                mode="overwrite" if was_written else "append",
                predicate=predicate if was_written else None,
                configuration=CONFIGURATION if found is None else None,
                commit_properties=CommitProperties(max_commit_retries=5),
            )
        elif found is not None and was_written:
            found.delete(predicate)

    @retry(
        retry=retry_if_exception_type(CommitFailedError),
        stop=stop_after_attempt(8),
        wait=wait_random_exponential(0.05, max=2),
        reraise=True,
    )  # two layers may write their books at the same instant; each append is independent of the other
    def _write(self, table: TableId, rows: Iterable[Mapping[str, Any]], *, mode: str, predicate: str | None = None) -> None:
        self._write_once(None, table, rows, mode=mode, predicate=predicate, retries=5)

    def _write_once(
        self, seen: DeltaTable | None, table: TableId, rows: Iterable[Mapping[str, Any]], *, mode: str, retries: int,
        predicate: str | None = None,
    ) -> None:  # fmt: skip
        """One commit; with `seen`, on top of that version. Raises CommitFailedError when others were quicker `retries` times."""
        schema = SCHEMAS[table]
        rows = list(rows)
        for row in rows:
            if unknown := set(row) - set(schema.names):
                raise ValueError(f"{table} has no column {', '.join(sorted(unknown))}")
        columns = {name: pa.array([row.get(name) for row in rows], schema.field(name).type) for name in schema.names}
        write_deltalake(
            seen or self._settings.location(table),
            pa.table(columns, schema=schema),
            mode=mode,  # type: ignore[arg-type]  # the stub wants the literal
            predicate=predicate,
            partition_by=PARTITIONS.get(table),
            configuration=CONFIGURATION if seen is None and self._is_new(table) else None,
            commit_properties=CommitProperties(max_commit_retries=retries),
        )

    def _is_new(self, table: TableId) -> bool:
        try:
            return not self.exists(table)
        except TableNotFoundError:
            return True
