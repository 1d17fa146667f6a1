"""A new checkpoint for a query whose old one cannot be gone on with, positioned from the tables so that no row is lost or doubled.

Nothing is read by the checkpoint's account: what was taken from the source is what the tables have. The new generation begins before the
first row that none of them has; where rows behind that place were taken already, the first batches look for them and pass them over
(`jobs/taking_over.py`). What a batch left beside its table without being committed is taken out by the next start, and read again.
Starts no JVM; the caller holds the leases of the tables that the query writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow.compute as pc

from spark_jobs.io.checkpoint import STREAM_BATCH, Checkpoint
from spark_jobs.io.delta_log import Position, RestoredToUnknown
from spark_jobs.io.generation import BASE
from spark_jobs.io.lake import lake_table, storage
from spark_jobs.io.last_batch import LastBatch, last_batch
from spark_jobs.io.lease import Leases
from spark_jobs.io.new_generation import make_generation
from spark_jobs.io.taken import Begin, batches_beside, begin_after, files_taken, records_taken, whole_of
from spark_jobs.io.work import bronze_checkpoint, gold_checkpoint, named_silver_version, silver_checkpoint
from spark_jobs.jobs.gold_batch import complete_books
from spark_jobs.jobs.gold_standing import gold_fault
from spark_jobs.jobs.open_batches import hand_over_decisions, open_batches
from spark_jobs.jobs.publishing import write_books
from spark_jobs.jobs.run import Run
from spark_jobs.spec.errors import CheckpointDamaged, UnknownName
from spark_jobs.spec.tables import BOOKS, FILE_OUTCOMES, Layer, TableId


@dataclass
class Rebuilt:
    """What a rebuild did, as sentences for a person, and the new checkpoint's place (empty where there is none to be made)."""

    query: TableId
    location: str = ""
    said: list[str] = field(default_factory=list)


def queries(run: Run) -> tuple[TableId, ...]:
    """What can be rebuilt: bronze, silver, the clock of the hourly gold tables, and each gold table by itself."""
    pipeline = run.pipeline
    return (pipeline.bronze_table, pipeline.silver_table, pipeline.gold_stream, *pipeline.gold_tables)


def tables_of(run: Run, query: TableId) -> tuple[TableId, ...]:
    """The tables whose leases a rebuild of the query needs. Raises UnknownName."""
    if query not in queries(run):
        raise UnknownName(f"{query} has no checkpoint to rebuild; there are {', '.join(map(str, queries(run)))}.")
    return run.pipeline.gold_tables_of("hourly") if query == run.pipeline.gold_stream else (query,)


def rebuild(run: Run, leases: Leases, query: TableId) -> Rebuilt:
    """Raises UnknownName, LeaseLost; CheckpointDamaged when the table's own log does not say which of its batches count."""
    tables_of(run, query)
    if query == run.pipeline.bronze_table:
        return _rebuild_stream(run, leases, "bronze", bronze_checkpoint(run.settings, run.pipeline))
    if query == run.pipeline.silver_table:
        return _rebuild_stream(run, leases, "silver", silver_checkpoint(run.settings, run.pipeline))
    if query == run.pipeline.gold_stream:
        return _rebuild_gold(run, leases)
    done = Rebuilt(query)
    _set_aside_if_wrong(run, leases, query, done)
    return done


def _rebuild_stream(run: Run, leases: Leases, layer: Layer, old: Checkpoint) -> Rebuilt:
    settings, table = run.settings, old.table
    try:
        last = last_batch(settings, table)
    except RestoredToUnknown as restored:
        commit = f"{settings.location(table)}/_delta_log/{restored.args[0]:020d}.json"
        raise CheckpointDamaged(
            f"{commit} restored {table} to a point in time and does not say to which version, so nobody can tell which batches count. "
            f"Restore it to a version by its number, or restore the lake from a backup. Nothing was changed."
        ) from None
    left = _batches_left(run, layer, table)
    begun, offsets = _begun_batch(old, last, _id(run, old.source))
    voids = sorted({name for name in left | open_batches(run, (table,)) if last.is_void(name)} | ({begun} if begun else set()))
    count = (files_taken if layer == "bronze" else records_taken)(settings, run.pipeline, last.is_void)
    since = 0
    if last.batch_id and last.reaches_back and not last.was_restored and _reads(old) == _id(run, old.source):
        since = max(0, int(last.note.get("source_version") or 0))  # all before it was taken by the batches that count
    position = _position(old) if _ends_with(old, last) else None
    try:
        begin = begin_after(settings, old.source, since, count, fallback=position)
    except FileNotFoundError:  # the log no longer tells what came in when: all that the source holds is looked through
        begin = whole_of(settings, old.source)
    name = _next_name(old, {last.batch_id, *left})
    first = f"{name}-{BASE + 1:08d}"
    keeps_bounds = bool(offsets) and begin.taken_until < 0 and begin.position == position
    done = Rebuilt(table, f"{settings.checkpoint(table)}/{name}")
    successors = {void: first if void == begun and keeps_bounds else "" for void in voids}
    done.said += hand_over_decisions(run, (table,), successors)
    leases.check()
    if last.note and not run.ops.read(BOOKS, ["batch_id"], equal={"table": str(table), "batch_id": last.batch_id}).num_rows:
        write_books(run, layer, table, last.note)
        done.said.append(f"The books of {last.batch_id}, which was committed and not finished, were written.")
    leases.check()
    make_generation(
        settings, old, begin, name=name, follows=last.batch_id, voids=voids, begun=offsets if keeps_bounds else "", at=run.clock()
    )  # fmt: skip
    done.said.insert(0, _where(table, old, begin, last))
    if others := [void for void in voids if void in left]:
        done.said.append(f"Its next start takes out what {', '.join(others)} left without being committed; their records are read again.")
    return done


def _rebuild_gold(run: Run, leases: Leases) -> Rebuilt:
    """Gold names in its own commits how far it has come; its checkpoint is only the clock."""
    settings, pipeline = run.settings, run.pipeline
    old, hourly = gold_checkpoint(settings, pipeline), pipeline.gold_tables_of("hourly")
    done = Rebuilt(pipeline.gold_stream)
    for table in hourly:
        _set_aside_if_wrong(run, leases, table, done)
    named = [named_silver_version(settings, pipeline, table) for table in hourly]
    behind = min(-1 if version is None else version for version in named)
    books = run.ops.read(BOOKS, ["table", "batch_id"], pc.field("table").isin(list(map(str, hourly)))).to_pylist()
    name = _next_name(old, {row["batch_id"] for row in books})
    first = f"{name}-{BASE + 1:08d}"
    begun, offsets = _begun_batch(old, None, _id(run, old.source))
    for table in hourly:
        complete_books(run, table)
    asked = {batch for batch in open_batches(run, hourly) if STREAM_BATCH.match(batch)} | ({begun} if begun else set())
    done.said += hand_over_decisions(run, hourly, {batch: first if offsets and batch == begun else "" for batch in asked})
    leases.check()
    begin = Begin(Position(behind + 1, -1))
    make_generation(settings, old, begin, name=name, follows="", voids=[], begun=offsets, at=run.clock())
    done.location = f"{settings.checkpoint(pipeline.gold_stream)}/{name}"
    done.said.insert(0, f"{old.table} goes on with {name}, from version {behind + 1} of {old.source}.")
    return done


def _set_aside_if_wrong(run: Run, leases: Leases, table: TableId, done: Rebuilt) -> None:
    """Move a gold table whose rows are not what its silver version has out of the way: the next run computes it again."""
    if gold_fault(run, table) is None:
        return
    leases.check()
    fs, location = storage(run.settings.location(table))
    _, root = storage(run.settings.lake_root)
    aside = f"{root}/_set_aside/{table}.{run.clock():%Y%m%dT%H%M%S}"
    fs.makedirs(f"{root}/_set_aside", exist_ok=True)
    fs.mv(location, aside, recursive=True)
    done.said.append(f"{table} is not what silver has, so it was set aside as {aside}; the next run computes it again from silver.")


def _begun_batch(old: Checkpoint, last: LastBatch | None, source_id: str) -> tuple[str, str]:
    """The batch that the old checkpoint had begun and nobody has finished, and its offsets file where that is whole and of this source."""
    number = max(old.files.numbers("commits"), default=-1) + 1
    if number not in old.files.numbers("offsets"):
        return "", ""
    name = old.batch_id(number)
    if last is not None and not last.is_void(name):
        return "", ""  # the table has it: only the checkpoint was not told
    try:
        _, counts_in = old.files.offset(number)
        return name, "\n".join(old.files.lines(f"offsets/{number}")) if counts_in == source_id else ""
    except CheckpointDamaged:
        return name, ""


def _batches_left(run: Run, layer: Layer, table: TableId) -> set[str]:
    """Every batch id that is written beside the main table, or in what is said about it."""
    found = batches_beside(run.settings, table)
    found |= set(run.ops.read(BOOKS, ["batch_id"], equal={"table": str(table)})["batch_id"].to_pylist())
    if layer == "bronze":
        mine = pc.field("pipeline") == run.pipeline.name
        found |= set(run.ops.read(FILE_OUTCOMES, ["batch_id"], mine)["batch_id"].to_pylist())
    return found


def _next_name(old: Checkpoint, batches: Iterable[str]) -> str:
    """Newer than every generation of which a folder or a batch is left, so that no batch id comes twice."""
    used = [int(found[1]) for name in batches if (found := STREAM_BATCH.match(name))]
    return f"v{max([*used, *old.generations(), 0]) + 1}"


def _reads(old: Checkpoint) -> str:
    """The id of the table that the old checkpoint counts in; empty when it does not tell."""
    try:
        if (known := old.known()) is not None:
            return known.source_id
    except CheckpointDamaged:
        pass
    for number in sorted(old.files.numbers("offsets"), reverse=True):
        try:
            return old.files.offset(number)[1]
        except CheckpointDamaged:
            continue
    return ""


def _position(old: Checkpoint) -> Position | None:
    try:
        return old.position()
    except CheckpointDamaged:
        return None


def _ends_with(old: Checkpoint, last: LastBatch) -> bool:
    """Whether the newest batch that the checkpoint calls finished is the last one that the table has (or neither has any)."""
    return last.batch_id == (old.newest_batch_id() if old.files.numbers("commits") else "")


def _id(run: Run, table: TableId) -> str:
    found = lake_table(run.settings, table)
    return "" if found is None else str(found.metadata().id)


def _where(table: TableId, old: Checkpoint, begin: Begin, last: LastBatch) -> str:
    if begin.is_snapshot:
        return (
            f"The log of {old.source} no longer has all commits that {table} has not taken: it looks through the whole of version "
            f"{begin.position.version}, passes over what the tables have already, and goes on from there."
        )
    place = f"version {begin.position.version} of {old.source}"
    if begin.position.index >= 0:
        place += f", behind its file {begin.position.index + 1}"
    said = f"{table} goes on from {place}, after batch {last.batch_id or 'none'}"
    if begin.taken_until >= 0:
        said += f"; up to version {begin.taken_until} it passes over what the tables have already"
    return f"{said}."
