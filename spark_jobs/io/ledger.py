"""The file ledger `_ops.files`: one row per version of one landed object. Bronze streams this table, not the directory.

One data file of the ledger holds at most `batch_files` landed files and `batch_mb` megabytes, and is one micro-batch: Spark's rate limits
count ledger files, not what they name. The append is a compare-and-set on the version that the comparison was made with, so two listings
at once cannot enter one object twice.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction
from pyarrow.dataset import dataset
from pyarrow.fs import LocalFileSystem

from spark_jobs.io.lake import lake_table, storage
from spark_jobs.io.landed_file import file_id, file_system_of
from spark_jobs.io.landing import LandingFolder, ListedObject, listed_object
from spark_jobs.io.ops import CONFIGURATION, SCHEMAS, Ops
from spark_jobs.spec.errors import AssayError, UnknownName
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import FILE_OUTCOMES, FILES, SWEEPS

APPEND_ATTEMPTS = 20
RETRY_AFTER = timedelta(minutes=10)  # doubled with every attempt


@dataclass(frozen=True, slots=True)
class Discovered:
    """What one look at the landing folder brought."""

    listed: int
    new: int
    ignored: int
    readmitted: int
    swept: bool
    refused: tuple[str, ...] = ()  # folders that this user may not list


def discover(settings: Settings, pipeline: Pipeline, run_id: str, now: datetime, *, sweep: bool | None = None) -> Discovered:
    """List the landing folder and enter what is new. Lists only the newest date prefixes unless a sweep is due (or asked for)."""
    ops = Ops(settings)
    folder = LandingFolder(settings.landing_root)
    sweeping = _sweep_is_due(ops, settings, pipeline, now) if sweep is None else sweep
    objects = list(folder.everything() if sweeping else folder.newest(settings.recent_dates))
    # When everything was listed, an object may be of any date; else only rows of the dates that were listed can be the same object.
    dates = None if sweeping else {found.prefix_date for found in objects}
    entered = _append(settings, lambda known: _new_rows(pipeline, objects, known, run_id, now), dates)
    again = _readmit_healed(settings, pipeline, ops, run_id, now)
    ignored = sum(row["state"] == "ignored" for row in entered)
    if sweeping and not folder.refused:  # else the next run lists everything again
        ops.append(
            SWEEPS,
            [
                {
                    "pipeline": pipeline.name,
                    "root": folder.root,
                    "listed": len(objects),
                    "new": len(entered),
                    "swept_at": now,
                    "run_id": run_id,
                }
            ],
        )
    return Discovered(len(objects), len(entered) - ignored, ignored, again, sweeping, tuple(folder.refused))


def readmit(settings: Settings, pipeline: str, file_ids: Sequence[str], run_id: str, now: datetime | None = None) -> int:
    """Ask for one more reading of files that failed, whatever their attempts. Returns how many were entered.

    Raises UnknownName when a file id is not in the ledger.
    """
    now = now or datetime.now(UTC)
    wanted = pc.field("file_id").isin(list(file_ids)) & (pc.field("pipeline") == pipeline)
    rows = Ops(settings).read(FILES, filter=wanted).to_pylist()
    if missing := set(file_ids) - {row["file_id"] for row in rows}:
        raise UnknownName(f"The ledger of {pipeline} has no file {', '.join(sorted(missing))}. `assay files` lists what it has.")
    latest = {row["file_id"]: row for row in sorted(rows, key=lambda row: row["attempt"])}

    def again(known: pa.Table) -> list[dict[str, object]]:
        attempts: dict[str, int] = {}
        for name, attempt in zip(known["file_id"].to_pylist(), known["attempt"].to_pylist(), strict=True):
            attempts[name] = max(attempt, attempts.get(name, 0))
        return [
            row
            | {"attempt": row["attempt"] + 1, "state": "listed", "reason": None, "admitted": "retry", "listed_at": now, "run_id": run_id}
            for row in latest.values()
            if attempts.get(row["file_id"], 0) == row["attempt"]  # somebody else may have asked in between
        ]

    return len(_append(settings, again, {row["prefix_date"] for row in rows}))


def _sweep_is_due(ops: Ops, settings: Settings, pipeline: Pipeline, now: datetime) -> bool:
    mine = (pc.field("pipeline") == pipeline.name) & (pc.field("root") == settings.landing_root)
    swept = ops.read(SWEEPS, ["swept_at"], mine & (pc.field("swept_at") > pa.scalar(now - timedelta(hours=settings.sweep_hours))))
    return swept.num_rows == 0


def _new_rows(pipeline: Pipeline, objects: Sequence[ListedObject], known: pa.Table, run_id: str, now: datetime) -> list[dict[str, object]]:
    ids = [file_id(found.path, found.size, found.version) for found in objects]
    is_known = pc.is_in(pa.array(ids, pa.string()), value_set=known["file_id"].combine_chunks()).to_pylist()
    rows: list[dict[str, object]] = []
    for found, name, old in zip(objects, ids, is_known, strict=True):
        if not old:
            reason = pipeline.landing.reason_not_read(found.below_root)
            rows.append(
                {
                    "pipeline": pipeline.name,
                    "path": found.path,
                    "size": found.size,
                    "version": found.version,
                    "file_id": name,
                    "modified_at": found.modified_at,
                    "prefix_date": found.prefix_date,
                    "attempt": 1,
                    "state": "ignored" if reason else "listed",
                    "reason": reason,
                    "admitted": "live",
                    "listed_at": now,
                    "run_id": run_id,
                }
            )
    return rows


def _readmit_healed(settings: Settings, pipeline: Pipeline, ops: Ops, run_id: str, now: datetime) -> int:
    """Files whose failure may heal by itself are read again with back-off, if they are still what was listed."""
    failed = ops.read(
        FILE_OUTCOMES,
        ["file_id", "path", "attempt", "read_at", "rule"],
        (pc.field("outcome") == "failed") & pc.field("heals") & (pc.field("pipeline") == pipeline.name),
    ).to_pylist()
    latest = {row["file_id"]: row for row in sorted(failed, key=lambda row: row["attempt"])}
    due = [
        row
        for row in latest.values()
        if row["attempt"] < settings.retry_attempts and now - row["read_at"] >= RETRY_AFTER * 2 ** (row["attempt"] - 1)
    ]
    asked = ops.read(FILES, ["file_id", "attempt"], pc.field("admitted") == "retry").to_pylist() if due else []
    attempts = {(row["file_id"], row["attempt"]) for row in asked}
    ids = [row["file_id"] for row in due if (row["file_id"], row["attempt"] + 1) not in attempts and _is_still_there(settings, row)]
    return readmit(settings, pipeline.name, ids, run_id, now) if ids else 0


def _is_still_there(settings: Settings, outcome: dict[str, str]) -> bool:
    """True when the object is the version that was listed; a changed one has been listed anew by itself."""
    fs = file_system_of(outcome["path"])
    try:
        found = listed_object(fs, storage(settings.landing_root)[1], fs.info(outcome["path"]))
    except OSError:
        return False
    return found is not None and file_id(found.path, found.size, found.version) == outcome["file_id"]


def _append(settings: Settings, make_rows, dates: set[date | None] | None) -> list[dict[str, object]]:  # type: ignore[no-untyped-def]
    """Compare with the rows of those dates (None: all), append what is new, and do both again if somebody else committed in between."""
    for _ in range(APPEND_ATTEMPTS):
        ledger = lake_table(settings, FILES)
        rows: list[dict[str, object]] = make_rows(_known(ledger, dates))
        if not rows:
            return []
        try:
            _commit(settings, ledger, rows)
            return rows
        except CommitFailedError:
            continue
    raise AssayError(f"The file ledger was changed by others {APPEND_ATTEMPTS} times in a row; this run enters nothing. Run again.")


def _known(ledger: DeltaTable | None, dates: set[date | None] | None) -> pa.Table:
    """`file_id` and `attempt` of the ledger's rows of those dates (None: of all)."""
    schema = pa.schema([SCHEMAS[FILES].field(name) for name in ("file_id", "attempt")])
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
    if not files.num_rows:
        return schema.empty_table()
    # Chosen by their statistics as one Arrow table: delta-rs's dataset makes an expression of each file's, 3 s for 8,000 files.
    fs, root = storage(ledger.table_uri)
    paths = [f"{root.rstrip('/')}/{name}" for name in files["path"].to_pylist()]
    on_disk = LocalFileSystem() if "file" in fs.protocol else fs
    rows = dataset(paths, schema=SCHEMAS[FILES], format="parquet", filesystem=on_disk).to_table(columns=schema.names, filter=within)
    return rows.cast(schema)


def _may_hold(files: pa.Table, days: pa.Array) -> pa.Array:
    """For each data file whether a row of one of the days may be in it."""
    holds = pa.array([False] * files.num_rows)
    for day in days:
        within = pc.and_kleene(pc.less_equal(files["min.prefix_date"], day), pc.greater_equal(files["max.prefix_date"], day))
        holds = pc.or_(holds, pc.fill_null(within, False))
    return holds


def _commit(settings: Settings, ledger: DeltaTable | None, rows: Sequence[dict[str, object]]) -> None:
    """One commit, one data file per chunk. Raises CommitFailedError when the ledger is not what it was."""
    schema = SCHEMAS[FILES]
    location = settings.location(FILES)
    if ledger is None:
        ledger = DeltaTable.create(location, schema, mode="ignore", configuration=CONFIGURATION)
    fs, root = storage(location)
    actions = []
    for chunk in chunks(rows, settings.batch_files, settings.batch_mb * 1_000_000):
        name = f"part-{uuid.uuid4().hex}.parquet"
        table = pa.Table.from_pylist([row | {"chunk": name[5:-8]} for row in chunk], schema=schema)
        with fs.open(f"{root}/{name}", "wb") as file:
            pq.write_table(table, file)
        size = fs.size(f"{root}/{name}")
        actions.append(AddAction(name, size, {}, int(datetime.now(UTC).timestamp() * 1000), True, json.dumps(_statistics(table))))
    ledger.create_write_transaction(
        actions,
        mode="append",
        schema=schema,
        commit_properties=CommitProperties(max_commit_retries=0),
        post_commithook_properties=PostCommitHookProperties(create_checkpoint=True),
    )


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
