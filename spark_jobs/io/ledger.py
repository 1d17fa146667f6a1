"""The file ledger `_ops.files`: one row per version of one landed object. Bronze streams this table, not the directory.

One data file of the ledger holds at most `batch_files` landed files and `batch_mb` megabytes, and is one micro-batch: Spark's rate limits
count ledger files, not what they name. The append is a compare-and-set on the version that the comparison was made with, so two listings
at once cannot enter one object twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties
from deltalake.exceptions import CommitFailedError

from spark_jobs.io.lake import lake_table, storage
from spark_jobs.io.landed_file import file_id, file_system_of
from spark_jobs.io.landing import LandingFolder, ListedObject, listed_object
from spark_jobs.io.ledger_files import ledger_rows as _known
from spark_jobs.io.ledger_files import write_data_files
from spark_jobs.io.ledger_memory import LedgerMemory
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


def discover(
    settings: Settings, pipeline: Pipeline, run_id: str, now: datetime, *, sweep: bool | None = None,
    only: tuple[date, date] | None = None, memory: LedgerMemory | None = None, healed: bool = True,
) -> Discovered:  # fmt: skip
    """List the landing folder and enter what is new.

    Lists only the newest date prefixes unless a sweep is due (or asked for); with `only`, nothing but the prefixes of those dates.
    `memory`: of the process that looks again and again. `healed`: look for failed files that may be read again, too.
    """
    ops = Ops(settings)
    folder = LandingFolder(settings.landing_root)
    sweeping = only is None and (_sweep_is_due(ops, settings, pipeline, now) if sweep is None else sweep)
    objects = list(folder.dated(*only) if only else folder.everything() if sweeping else folder.newest(settings.recent_dates))
    listed = len(objects)
    if memory is not None and not sweeping:
        objects = [found for found in objects if not memory.has(found.prefix_date, file_id(found.path, found.size, found.version))]
    # When everything was listed, an object may be of any date; else only rows of the dates that were listed can be the same object.
    dates = None if sweeping else {found.prefix_date for found in objects}
    # The newest dates first, and what has no date with them: history that a sweep brings stands behind what has landed lately.
    objects.sort(key=lambda found: found.prefix_date or date.max, reverse=True)
    entered = _append(settings, lambda known: _new_rows(pipeline, objects, known, run_id, now), dates, memory) if objects else []
    again = _readmit_healed(settings, pipeline, ops, run_id, now) if healed else 0
    ignored = sum(row["state"] == "ignored" for row in entered)
    if sweeping and not folder.refused:  # else the next run lists everything again
        ops.append(
            SWEEPS,
            [
                {
                    "pipeline": pipeline.name,
                    "root": folder.root,
                    "listed": listed,
                    "new": len(entered),
                    "swept_at": now,
                    "run_id": run_id,
                }
            ],
        )
    return Discovered(listed, len(entered) - ignored, ignored, again, sweeping, tuple(folder.refused))


def admit(
    settings: Settings, pipeline: Pipeline, objects: Sequence[ListedObject], run_id: str, now: datetime, admitted: str
) -> list[dict[str, object]]:
    """Enter these objects, in their order and in one commit; those that the ledger has already are left out. Returns the rows entered.

    `admitted` says who brought them. This is how a backfill hands history to the pipeline's own writer.
    """
    dates = {found.prefix_date for found in objects}
    return _append(settings, lambda known: _new_rows(pipeline, objects, known, run_id, now, admitted), dates)


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


def _new_rows(
    pipeline: Pipeline, objects: Sequence[ListedObject], known: pa.Table, run_id: str, now: datetime, admitted: str = "live"
) -> list[dict[str, object]]:
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
                    "admitted": admitted,
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
        pc.field("heals"),
        equal={"outcome": "failed", "pipeline": pipeline.name},
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


def _append(  # type: ignore[no-untyped-def]
    settings: Settings, make_rows, dates: set[date | None] | None, memory: LedgerMemory | None = None
) -> list[dict[str, object]]:
    """Compare with the rows of those dates (None: all), append what is new, and do both again if somebody else committed in between."""
    for _ in range(APPEND_ATTEMPTS):
        ledger = lake_table(settings, FILES)
        known = _known(ledger, dates) if memory is None or dates is None else memory.known(settings, ledger, dates)
        rows: list[dict[str, object]] = make_rows(known)
        if not rows:
            return []
        try:
            _commit(settings, ledger, rows)
            return rows
        except CommitFailedError:
            continue
    raise AssayError(f"The file ledger was changed by others {APPEND_ATTEMPTS} times in a row; this run enters nothing. Run again.")


def _commit(settings: Settings, ledger: DeltaTable | None, rows: Sequence[dict[str, object]]) -> None:
    """One commit, one data file per chunk. Raises CommitFailedError when the ledger is not what it was."""
    schema = SCHEMAS[FILES]
    location = settings.location(FILES)
    if ledger is None:
        ledger = DeltaTable.create(location, schema, mode="ignore", configuration=CONFIGURATION)
    ledger.create_write_transaction(
        write_data_files(settings, rows),
        mode="append",
        schema=schema,
        commit_properties=CommitProperties(max_commit_retries=0),
        post_commithook_properties=PostCommitHookProperties(create_checkpoint=True),
    )
