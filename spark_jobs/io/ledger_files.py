"""The data files of the ledger: bounded pieces with the statistics by which a look at some dates skips all others."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from spark_jobs.io.lake import rows_of_files, storage
from spark_jobs.io.ops import SCHEMAS
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import FILES


def ledger_rows(ledger: DeltaTable | None, dates: set[date | None] | None, columns: Sequence[str] = ("file_id", "attempt")) -> pa.Table:
    """The ledger's rows of those dates (None: of all), in these columns."""
    schema = pa.schema([SCHEMAS[FILES].field(name) for name in columns])
    if ledger is None:
        return schema.empty_table()
    files = pa.table(ledger.get_add_actions(flatten=True))
    within = None
    if dates is not None:
        days = pa.array([day for day in dates if day is not None], pa.date32())
        within = pc.field("prefix_date").isin(days)
        holds = _may_hold(files, days)
        if None in dates:
            within = within | pc.field("prefix_date").is_null()
            holds = pc.or_(holds, pc.greater(files["null_count.prefix_date"], 0))
        files = files.filter(holds)
    # Chosen by their statistics as one Arrow table: delta-rs's dataset makes an expression of each file's, 3 s for 8,000 files.
    rows = rows_of_files(ledger, SCHEMAS[FILES], files["path"].to_pylist()).to_table(columns=schema.names, filter=within)
    return rows.cast(schema)


def _may_hold(files: pa.Table, days: pa.Array) -> pa.Array:
    """For each data file whether a row of one of the days may be in it."""
    holds = pa.array([False] * files.num_rows)
    for day in days:
        within = pc.and_kleene(pc.less_equal(files["min.prefix_date"], day), pc.greater_equal(files["max.prefix_date"], day))
        holds = pc.or_(holds, pc.fill_null(within, False))
    return holds


def write_data_files(settings: Settings, rows: Sequence[dict[str, object]]) -> list[AddAction]:
    """One Parquet file for each bounded piece of the rows, in their order; they count once they are committed."""
    fs, root = storage(settings.location(FILES))
    actions = []
    for chunk in chunks(rows, settings.batch_files, settings.batch_mb * 1_000_000):
        name = f"part-{uuid.uuid4().hex}.parquet"
        table = pa.Table.from_pylist([row | {"chunk": name[5:-8]} for row in chunk], schema=SCHEMAS[FILES])
        with fs.open(f"{root}/{name}", "wb") as file:
            pq.write_table(table, file)
        size = fs.size(f"{root}/{name}")
        actions.append(AddAction(name, size, {}, int(datetime.now(UTC).timestamp() * 1000), True, json.dumps(_statistics(table))))
    return actions


def _statistics(table: pa.Table) -> dict[str, object]:
    """Delta's file statistics, by which an hourly look skips the files of other dates.

    For every column: delta-rs takes a bound that is missing for "nothing matches".
    """
    low: dict[str, object] = {}
    high: dict[str, object] = {}
    nulls = {name: table[name].null_count for name in table.column_names}
    for name in table.column_names:
        if nulls[name] < table.num_rows:
            least, most = (value.as_py() for value in pc.min_max(table[name]).values())
            low[name], high[name] = _bound(least), _bound(most)
    return {"numRecords": table.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}


def _bound(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value.isoformat() if isinstance(value, date) else value


def chunks(rows: Iterable[dict[str, object]], most_files: int, most_bytes: int) -> Iterator[list[dict[str, object]]]:
    """Rows in order, cut so that each piece names at most `most_files` files and `most_bytes` bytes (a single larger file stands alone)."""
    piece: list[dict[str, object]] = []
    held = 0
    for row in rows:
        size = int(str(row["size"])) if row["state"] == "listed" else 0
        if piece and (len(piece) >= most_files or held + size > most_bytes):
            yield piece
            piece, held = [], 0
        piece.append(row)
        held += size
    if piece:
        yield piece
