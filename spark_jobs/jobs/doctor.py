"""The doctor: for each checkpoint, what a start of its query would do, said before it is started. Reads alone, without a JVM.

Each check is the start's own (`Checkpoint.faults`, `gold_fault`): a start raises the first that it finds, here all are collected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from spark_jobs.io.checkpoint import Checkpoint
from spark_jobs.io.delta_log import RestoredToUnknown
from spark_jobs.io.delta_tables import last_transaction
from spark_jobs.io.generation import engine_versions
from spark_jobs.io.lake import lake_table
from spark_jobs.io.last_batch import last_batch
from spark_jobs.io.lease import Lease
from spark_jobs.io.relay import end_request
from spark_jobs.io.work import bronze_checkpoint, gold_checkpoint, silver_checkpoint, undone_decisions
from spark_jobs.jobs.gold_standing import gold_fault
from spark_jobs.jobs.replay_commit import open_replay
from spark_jobs.jobs.run import Run
from spark_jobs.spec.errors import AssayError, CheckpointDamaged
from spark_jobs.spec.tables import TableId

SHUFFLE, PROVIDER = "spark.sql.shuffle.partitions", "spark.sql.streaming.stateStore.providerClass"
SAFE, WITH_OPTION, REBUILD = "safe", "safe with option", "needs rebuild"

State = Literal["ok", "note", "option", "rebuild"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `option`: what makes a start safe or possible, where `state` is "option"."""

    check: str
    state: State
    sentence: str
    option: str = ""


@dataclass
class Verdict:
    """What a start of one query would do. `evidence` are the facts that the verdict rests on."""

    pipeline: str
    query: str
    checkpoint: str
    findings: list[Finding] = field(default_factory=list)
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        states = {one.state for one in self.findings}
        return REBUILD if "rebuild" in states else WITH_OPTION if "option" in states else SAFE

    @property
    def reason(self) -> str:
        """The sentence that the verdict rests on: the one with which a start would refuse, where it would."""
        for state in ("rebuild", "option", "note"):
            for one in self.findings:
                if one.state == state:
                    return one.sentence
        return str(self.evidence.get("sentence", "Nothing stands against a start."))

    def as_dict(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline, "query": self.query, "checkpoint": self.checkpoint, "verdict": self.verdict, "reason": self.reason,
            "options": [one.option for one in self.findings if one.option], "findings": [asdict(one) for one in self.findings],
            "evidence": self.evidence,
        }  # fmt: skip


def diagnose(run: Run) -> list[Verdict]:
    """A verdict for bronze, silver, the clock of hourly gold with its tables, and each daily gold table; in data order."""
    settings, pipeline = run.settings, run.pipeline
    streams = [_stream(run, checkpoint) for checkpoint in (bronze_checkpoint(settings, pipeline), silver_checkpoint(settings, pipeline))]
    return [*streams, _gold(run), *(_daily(run, table) for table in pipeline.gold_tables_of("daily"))]


def _stream(run: Run, checkpoint: Checkpoint) -> Verdict:
    table = checkpoint.table
    found = Verdict(run.pipeline.name, str(table), checkpoint.location)
    faults: list[AssayError] = list(checkpoint.faults())
    known = None if faults and not _is_readable(checkpoint) else checkpoint.known()
    if known is not None:
        transaction = last_transaction(run.settings, table, f"{table}/{known.name}/{known.nonce}")
        faults += list(checkpoint.faults_against(transaction))
        found.evidence["newest_transaction"] = transaction
    found.findings += [Finding("checkpoint", "rebuild", str(fault)) for fault in _once(faults)]
    _last_batch(run, table, found)
    _common(run, checkpoint, (table,), found)
    if known is not None and known.voids and not checkpoint.is_tidied:
        said = f"The next start takes out what {', '.join(known.voids)} left without being committed."
        found.findings.append(Finding("generation", "note", said))
    if table == run.pipeline.silver_table and (replay := open_replay(run.settings, table)) is not None:
        said = f"The replay {replay} was begun and not finished; the next start completes it or takes it back."
        found.findings.append(Finding("replay", "note", said))
    return found


def _gold(run: Run) -> Verdict:
    checkpoint, hourly = gold_checkpoint(run.settings, run.pipeline), run.pipeline.gold_tables_of("hourly")
    found = Verdict(run.pipeline.name, str(checkpoint.table), checkpoint.location)
    found.findings += [Finding("checkpoint", "rebuild", str(fault)) for fault in checkpoint.faults()]
    for table in hourly:
        if (fault := gold_fault(run, table)) is not None:
            found.findings.append(Finding("table", "rebuild", str(fault)))
        elif lake_table(run.settings, table) is None and _has_begun(checkpoint):
            said = f"{table} is not there (new, or removed): the next run computes all of it from {checkpoint.source}."
            found.findings.append(Finding("table", "note", said))
    _common(run, checkpoint, hourly, found)
    return found


def _daily(run: Run, table: TableId) -> Verdict:
    """Daily gold has no checkpoint: the table itself names the silver version it was computed from."""
    found = Verdict(run.pipeline.name, str(table), "")
    if (fault := gold_fault(run, table)) is not None:
        found.findings.append(Finding("table", "rebuild", str(fault)))
    found.findings += list(_leases(run, (table,)))
    return found


def _common(run: Run, checkpoint: Checkpoint, tables: tuple[TableId, ...], found: Verdict) -> None:
    found.findings += list(_begun(checkpoint))
    found.findings += list(_engine(checkpoint))
    found.findings += list(_settings(run, checkpoint))
    found.findings += list(_leases(run, tables))
    found.findings += list(_end_asked(run)) if checkpoint.table == run.pipeline.bronze_table else []
    for row in undone_decisions(run.settings, run.pipeline):
        if row["table"] in map(str, tables):
            said = f"{row['table']} {row['batch_id']}: {row['who']} has decided {row['decision']}; the next start carries it out."
            found.findings.append(Finding("decision", "note", said))
    source = lake_table(run.settings, checkpoint.source)
    offsets, commits = checkpoint.files.numbers("offsets"), checkpoint.files.numbers("commits")
    found.evidence |= {
        "source": str(checkpoint.source), "source_id": None if source is None else str(source.metadata().id),
        "source_version": None if source is None else source.version(), "generation": checkpoint.generation,
        "offsets": max(offsets, default=None), "commits": max(commits, default=None), "engine": checkpoint.engine(),
        "fixed_settings": _fixed(checkpoint),
    }  # fmt: skip
    try:
        position = checkpoint.position()
        found.evidence["position"] = {"version": position.version, "index": position.index}
        said = f"Batches up to {max(commits)} are finished; it goes on from version {position.version} of {checkpoint.source}."
        found.evidence["sentence"] = said if commits else "It has not been started yet."
    except (CheckpointDamaged, ValueError):
        found.evidence["sentence"] = "It has not been started yet."


def _last_batch(run: Run, table: TableId, found: Verdict) -> None:
    try:
        found.evidence["last_batch"] = last_batch(run.settings, table).batch_id
    except RestoredToUnknown:
        found.evidence["last_batch"] = None


def _begun(checkpoint: Checkpoint) -> Iterator[Finding]:
    number = max(checkpoint.files.numbers("commits"), default=-1) + 1
    if number in checkpoint.files.numbers("offsets"):
        said = f"Batch {checkpoint.batch_id(number)} was begun and not finished: it is made again in the same bounds."
        yield Finding("begun batch", "note", said)


def _engine(checkpoint: Checkpoint) -> Iterator[Finding]:
    """Spark goes on with a checkpoint of its own major version; an older Spark may not know what a newer one has written."""
    recorded, here = checkpoint.engine(), engine_versions()
    for name, title in (("spark", "Spark"), ("delta", "Delta")):
        was, now = recorded.get(name), here.get(name)
        if not was or not now or was == now:
            continue
        if _numbers(was) <= _numbers(now) and _numbers(was)[:1] == _numbers(now)[:1]:
            yield Finding("engine", "note", f"It ran with {title} {was} last, {now} is installed: it goes on.")
        else:
            option = f"{title} {was}, or `assay doctor --rebuild {checkpoint.table}`"
            said = f"It ran with {title} {was} last, and {now} is installed, which is not known to read its files: {option} is safe."
            yield Finding("engine", "option", said, option)


def _settings(run: Run, checkpoint: Checkpoint) -> Iterator[Finding]:
    """What the first batches have fixed: a restart takes it from the newest offsets file and not from the session."""
    fixed = _fixed(checkpoint)
    if not fixed.get(SHUFFLE) or not checkpoint.has_state():
        return  # a query without state computes the same with any number of partitions
    option = f"{SHUFFLE}={fixed[SHUFFLE]}, {PROVIDER}={fixed.get(PROVIDER, '').rsplit('.', 1)[-1]}"
    said = f"It keeps state in {fixed[SHUFFLE]} partitions, which its first batch has fixed: started with {option} it is safe."
    yield Finding("state", "option", said, option)


def _fixed(checkpoint: Checkpoint) -> dict[str, str]:
    try:
        return checkpoint.settings_of(max(checkpoint.files.numbers("offsets"), default=-1))
    except CheckpointDamaged:
        return {}


def _leases(run: Run, tables: tuple[TableId, ...]) -> Iterator[Finding]:
    for table in tables:
        holder = Lease(run.settings, table, run.run_id).holder()
        if holder is not None:
            option = "`assay stream stop`" if holder.is_continuous else "wait until it ends, or stop it"
            yield Finding("lease", "option", f"{table} is being written by {holder}: a start is refused meanwhile; {option}.", option)
            return  # its other tables are held by the same writer


def _end_asked(run: Run) -> Iterator[Finding]:
    """A request that continuous drivers end stays where it was left; it counts for those alone that had begun before."""
    asked = end_request(run.settings, run.pipeline, 0.0)
    if asked is not None:
        at = datetime.fromtimestamp(asked.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        said = f"{asked.who} asked the continuous driver to end at {at} UTC; one that is started now does not mind."
        yield Finding("end request", "note", said)


def _is_readable(checkpoint: Checkpoint) -> bool:
    try:
        return checkpoint.known() is not None
    except CheckpointDamaged:
        return False


def _has_begun(checkpoint: Checkpoint) -> bool:
    return bool(checkpoint.files.numbers("commits"))


def _once(faults: Sequence[AssayError]) -> list[str]:
    return list(dict.fromkeys(map(str, faults)))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
