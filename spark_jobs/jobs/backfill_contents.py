"""What a backfill would work on: the files or dates of its range, compared with what is there, cut into chunks. Needs no JVM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.io.lake import lake_table, rows_of
from spark_jobs.io.landed_file import file_id
from spark_jobs.io.landing import LandingFolder, ListedObject
from spark_jobs.io.ledger_files import chunks, ledger_rows
from spark_jobs.jobs.run import Run
from spark_jobs.spec.backfill import CHUNK_BATCHES, CHUNK_DAYS, BackfillRequest
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.settings import Settings, absolute
from spark_jobs.spec.tables import FILE_OUTCOMES, FILES, TableId

MEND_SOURCE = "Give the folder or URL prefix below which the dated folders of the history lie."


@dataclass(frozen=True)
class Piece:
    """One chunk: `content` is kept with the plan and says all that is needed to do it again."""

    first: date
    last: date
    files: int
    bytes: int  # landed; of a recompute what its events had landed as
    content: dict[str, Any]


@dataclass
class Contents:
    """All that a plan says of its range, by day."""

    pieces: list[Piece]
    files: Counter[date] = field(default_factory=Counter)
    bytes: Counter[date] = field(default_factory=Counter)
    known: Counter[date] = field(default_factory=Counter)  # files that the ledger has already
    ignored: int = 0  # objects that are no logs
    records: int | None = None  # where the lake knows it
    refused: tuple[str, ...] = ()

    @property
    def dates(self) -> list[date]:
        return sorted(day for day in {*self.files, *self.known})


def contents(run: Run, request: BackfillRequest, records_per_byte: float) -> Contents:
    """Raises ConfigurationFault when the range holds nothing at all."""
    if request.what == "load":
        return _files_to_load(run, request)
    return _files_to_replay(run, request) if request.what == "replay" else _days_to_recompute(run, request, records_per_byte)


def source_folder(settings: Settings, request: BackfillRequest) -> LandingFolder:
    """Where the history lies. Raises ConfigurationFault when it cannot be listed."""
    if not request.source:
        return LandingFolder(settings.landing_root)
    try:
        return LandingFolder(absolute(request.source), MEND_SOURCE)
    except (ValueError, ImportError, OSError) as fault:
        raise ConfigurationFault(f"The source {request.source} cannot be listed: {fault}. {MEND_SOURCE}") from None


def listed(folder: LandingFolder, request: BackfillRequest) -> list[ListedObject]:
    """The objects of the range, in the order in which they are to be admitted."""
    found = list(folder.dated(request.first, request.last, accounts=request.accounts, regions=request.regions))
    found.sort(key=lambda one: one.path)
    found.sort(key=lambda one: one.prefix_date or date.min, reverse=request.is_newest_first)
    return found


def rows_by_day(settings: Settings, table: TableId, column: str, version: int | None = None) -> Counter[date]:
    """Rows of each day; from the table's log alone when that is its partition."""
    found = lake_table(settings, table, version)
    if found is None:
        return Counter()
    files = pa.table(found.get_add_actions(flatten=True))
    if f"partition.{column}" not in files.column_names:
        return Counter(rows_of(found).to_table(columns=[column])[column].to_pylist())
    counted: Counter[date] = Counter()
    for day, rows in zip(files[f"partition.{column}"].to_pylist(), files["num_records"].to_pylist(), strict=True):
        if day is not None:
            counted[day] += rows or 0
    return counted


def _files_to_load(run: Run, request: BackfillRequest) -> Contents:
    folder = source_folder(run.settings, request)
    objects = listed(folder, request)
    reasons = {one.path: run.pipeline.landing.reason_not_read(one.below_root) for one in objects}
    if not any(reason is None for reason in reasons.values()):
        refused = f" {len(folder.refused)} folders may not be listed: permission denied." if folder.refused else ""
        raise ConfigurationFault(
            f"There is nothing to load: no log file lies in the date folders (…/yyyy/mm/dd/) of {request} below {folder.root}.{refused} "
            f"Check the dates, accounts and regions, or name another source."
        )
    ledger = ledger_rows(lake_table(run.settings, FILES), {one.prefix_date for one in objects}, ["file_id"])
    known = set(ledger["file_id"].to_pylist())
    found = Contents([], ignored=sum(reason is not None for reason in reasons.values()), refused=tuple(folder.refused))
    rows: list[dict[str, Any]] = []
    for one in objects:
        assert one.prefix_date is not None  # only dated folders were listed
        is_log = reasons[one.path] is None
        if file_id(one.path, one.size, one.version) in known:
            found.known[one.prefix_date] += is_log
            continue
        if is_log:
            found.files[one.prefix_date] += 1
            found.bytes[one.prefix_date] += one.size
        rows.append({"object": one, "size": one.size, "state": "listed" if is_log else "ignored", "date": one.prefix_date})
    for part in _cut(run.settings, request, rows):
        kept = [[row["object"].below_root, row["size"], row["object"].version] for row in part]
        found.pieces.append(_piece(part, {"files": kept}))
    if not any(found.files.values()):  # the folders of other programs alone are no reason for a backfill
        found.pieces.clear()
    return found


def _files_to_replay(run: Run, request: BackfillRequest) -> Contents:
    """The files of the range that bronze has read, by the dates of their folders."""
    columns = ["file_id", "path", "size", "prefix_date", "pipeline", "state"]
    rows = ledger_rows(lake_table(run.settings, FILES), set(request.dates), columns).to_pylist()
    outcomes = run.ops.read(
        FILE_OUTCOMES, ["file_id", "records"], (pc.field("outcome") == "ok") & (pc.field("pipeline") == run.pipeline.name)
    )
    records = dict(zip(outcomes["file_id"].to_pylist(), outcomes["records"].to_pylist(), strict=True))
    wanted = {row["file_id"]: row for row in rows if row["file_id"] in records and _is_within(row["path"], request)}
    if not wanted:
        raise ConfigurationFault(f"There is nothing to replay: bronze has read no file of {request}. `assay files` lists what it has.")
    found = Contents([], records=sum(records[name] for name in wanted))
    ordered = sorted(wanted.values(), key=lambda row: row["path"])
    ordered.sort(key=lambda row: row["prefix_date"], reverse=request.is_newest_first)
    for row in ordered:
        found.files[row["prefix_date"]] += 1
        found.bytes[row["prefix_date"]] += row["size"]
    for part in _cut(run.settings, request, [row | {"date": row["prefix_date"]} for row in ordered]):
        found.pieces.append(_piece(part, {"file_ids": [row["file_id"] for row in part]}))
    return found


def _days_to_recompute(run: Run, request: BackfillRequest, records_per_byte: float) -> Contents:
    """The days of the range on which silver or a gold table has rows."""
    silver = rows_by_day(run.settings, run.pipeline.silver_table, run.pipeline.silver.date)
    days = [day for day in request.dates if silver[day]]
    if not days:
        raise ConfigurationFault(
            f"There is nothing to recompute: {run.pipeline.silver_table} has no event from {request.first} to {request.last}. "
            f"`assay status` says what it holds."
        )
    found = Contents([], records=sum(silver[day] for day in days))
    for day in days:
        found.files[day] += 0
        found.bytes[day] += int(silver[day] / records_per_byte)
    for start in range(0, len(days), CHUNK_DAYS):
        part = days[start : start + CHUNK_DAYS]
        size = sum(found.bytes[day] for day in part)
        found.pieces.append(Piece(min(part), max(part), 0, size, {"dates": [day.isoformat() for day in part]}))
    return found


def _cut(settings: Settings, request: BackfillRequest, rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    return chunks(rows, request.chunk_files, CHUNK_BATCHES * settings.batch_mb * 1_000_000)


def _piece(part: Sequence[dict[str, Any]], content: dict[str, Any]) -> Piece:
    days = [row["date"] for row in part]
    logs = [row for row in part if row["state"] == "listed"]
    return Piece(min(days), max(days), len(logs), sum(row["size"] for row in logs), content)


def _is_within(path: str, request: BackfillRequest) -> bool:
    parts = set(path.split("/"))
    return all(not wanted or parts & set(wanted) for wanted in (request.accounts, request.regions))


def changing_days(found: Contents, request: BackfillRequest) -> list[date]:
    """The days whose windows may change. A file that landed just after midnight holds events of the evening before."""
    days = {day for day in found.dates if found.files[day] or found.bytes[day]}
    return sorted(days | {day - timedelta(days=1) for day in days} if request.what != "recompute" else days)
