"""The checkpoint of a query: its generation, how far it has read, and whether it is whole.

Spark starts silently from scratch, or from the wrong place, when some of these files are gone (losing `metadata` alone gives the query a
new id and a replay doubles). So they are compared with each other and with the table before anything is written.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime

from spark_jobs.io.checkpoint_files import CheckpointFiles
from spark_jobs.io.delta_log import START, Position, RestoredToUnknown, versions_in_force
from spark_jobs.io.generation import GENERATION_FILE, TIDIED_FILE, Generation, record_engine, recorded_engine, write_whole
from spark_jobs.io.lake import lake_table, storage
from spark_jobs.io.source_log import faults_of_source
from spark_jobs.spec.errors import AssayError, CheckpointDamaged
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId

STREAM_BATCH = re.compile(r"v(\d+)-(\d{8})")


class Checkpoint:
    """The newest generation of the checkpoint of the query that writes `table` from `source`.

    Each check yields what it finds (`faults`, `faults_against`): a start raises the first, `assay doctor` shows them all.
    """

    def __init__(
        self, settings: Settings, table: TableId, source: TableId, *, writes: tuple[TableId, ...] = (), reads_changes: bool = False
    ) -> None:
        """`writes`: the tables whose existence proves that the query once ran (default: the table and its side tables).
        `reads_changes`: rows of the source that are changed in place do not stop it."""
        self._settings = settings
        self._table, self._source, self._reads_changes = table, source, reads_changes
        self._writes = writes or (table, table.side("quarantine"), table.side("held"))
        self._fs, self._folder = storage(settings.checkpoint(table))
        self._name = max(self._generations(), key=lambda name: int(name[1:]), default="v1")
        self._mend = (
            f"`assay doctor --rebuild {table}` makes a new checkpoint from the tables; or restore the folder from a backup made with the "
            f"tables. Nothing was written by this run."
        )
        self._undo = (
            f"A restart would leave a hole. If a RESTORE is the table's last commit, remove that commit's file from its _delta_log; if it "
            f"was meant, `assay doctor --rebuild {table}` goes on from there. Nothing was written by this run."
        )
        self._files = CheckpointFiles(self._fs, f"{self._folder}/{self._name}", self.location, self._mend)

    @property
    def location(self) -> str:
        """What Spark is given as checkpointLocation."""
        return f"{self._settings.checkpoint(self._table)}/{self._name}"

    @property
    def table(self) -> TableId:
        return self._table

    @property
    def source(self) -> TableId:
        return self._source

    @property
    def files(self) -> CheckpointFiles:
        return self._files

    @property
    def generation(self) -> str:
        return self._name

    def batch_id(self, batch: int) -> str:
        """The `_batch_id` of a micro-batch: v1-00000003."""
        return f"{self._name}-{batch:08d}"

    def newest_batch_id(self) -> str:
        """That of the newest batch that was finished."""
        return self.batch_id(max(self._files.numbers("commits"), default=0))

    def open(self) -> Generation:
        """The generation, made if this is the query's first start. Raises CheckpointDamaged when the checkpoint is not whole."""
        for fault in self.faults():
            raise fault
        return self.known() or self._begin()

    def check_against(self, transaction: int | None) -> None:
        """Compare with the last batch that the table's log says was committed, and with the one it ends with. Raises CheckpointDamaged."""
        for fault in self.faults_against(transaction):
            raise fault

    def known(self) -> Generation | None:
        """The generation that is written in the checkpoint; None when there is none. Raises CheckpointDamaged for an unreadable one."""
        path = f"{self._files.folder}/{GENERATION_FILE}"
        if not self._fs.exists(path):
            return None
        try:
            return Generation.read(self._fs.cat_file(path))
        except (ValueError, TypeError) as fault:
            raise CheckpointDamaged(f"{self._files.location_of(GENERATION_FILE)} is not readable ({fault}). {self._mend}") from None

    def faults(self) -> Iterator[AssayError]:
        """Whatever makes this checkpoint not whole, or not this query's."""
        source = lake_table(self._settings, self._source)
        source_id = "" if source is None else str(source.metadata().id)
        try:
            known = self.known()
        except CheckpointDamaged as fault:
            yield fault
            return
        if known is None:
            yield from self._faults_of_a_first_start()
            return
        if (known.table, known.source) != (str(self._table), str(self._source)):
            yield CheckpointDamaged(
                f"The checkpoint {self.location} belongs to {known.table} reading {known.source}, "
                f"not to {self._table} reading {self._source}. {self._mend}"
            )
            return
        if known.source_id != source_id:
            yield CheckpointDamaged(
                f"The checkpoint {self.location} was made for another {self._source} (table id {known.source_id}, "
                f"now {source_id or 'missing'}): the source was replaced. {self._mend}"
            )
            return
        faults = list(self._files.faults(self._source, source_id))
        yield from faults
        if source is not None and not faults:
            yield from faults_of_source(self._settings, self._files, self._source, self._mend, reads_changes=self._reads_changes)

    def faults_against(self, transaction: int | None) -> Iterator[CheckpointDamaged]:
        """Where the checkpoint and the table disagree. `transaction`: the newest of this generation that the table's log has."""
        known = self.known()
        base = known.base if known is not None else -1
        last_offset, last_commit = max(self._files.numbers("offsets"), default=-1), max(self._files.numbers("commits"), default=-1)
        committed = base if transaction is None else transaction
        if committed > last_offset:
            yield CheckpointDamaged(
                f"{self._files.location_of(f'offsets/{committed}')} is missing: {self._table} holds batch {committed}, the checkpoint "
                f"knows batches up to {last_offset}. A restart would read again what is already in the table. {self._mend}"
            )
        if committed < last_commit:
            yield CheckpointDamaged(
                f"{self._table} holds batches up to {committed}, its checkpoint {self.location} says {last_commit} were committed: "
                f"the table was set back, removed or replaced, and a restart would leave a hole. {self._mend}"
            )
        if transaction is None and known is not None and known.is_positioned:
            yield from self._faults_in_force(known.follows or None)
        else:
            yield from self._faults_in_force(self.batch_id(committed) if committed >= 0 else None)

    def _faults_in_force(self, batch_id: str | None) -> Iterator[CheckpointDamaged]:
        """A RESTORE takes rows back but not their transactions, so the newest commit that still counts must be the last batch's."""
        try:
            for version, info in versions_in_force(self._settings, self._table):
                left = json.loads(info.get("userMetadata") or "{}").get("batch_id", "")
                if not STREAM_BATCH.fullmatch(left):
                    continue  # a commit of somebody else, or of a decision on a held batch
                if left != batch_id:
                    yield CheckpointDamaged(
                        f"{self._table} ends with batch {left} (its version {version}), the checkpoint {self.location} with "
                        f"{batch_id or 'none'}: the table was restored to an older version, or this is not its newest checkpoint. "
                        f"{self._undo}"
                    )
                return
        except RestoredToUnknown as restored:
            commit = f"{self._settings.location(self._table)}/_delta_log/{restored.args[0]:020d}.json"
            yield CheckpointDamaged(f"{commit} restored {self._table} to a point in time. {self._undo}")

    @property
    def is_tidied(self) -> bool:
        """Whether what the generation before this one had left was taken out."""
        return bool(self._fs.exists(f"{self._files.folder}/{TIDIED_FILE}"))

    def say_tidied(self) -> None:
        write_whole(self._fs, f"{self._files.folder}/{TIDIED_FILE}", b"{}")

    def record_engine(self) -> None:
        """Write down which Spark and Delta go on with this checkpoint; done once all checks have passed."""
        record_engine(self._fs, self._files.folder)

    def engine(self) -> dict[str, str]:
        """Which Spark and Delta went on with it last; empty for a checkpoint of older code."""
        return dict(recorded_engine(self._fs, self._files.folder))

    def settings_of(self, batch: int) -> dict[str, str]:
        """The engine's settings that an offsets file fixes for the batches after it. Raises CheckpointDamaged."""
        lines = self._files.lines(f"offsets/{batch}")
        return dict(json.loads(lines[1]).get("conf") or {}) if len(lines) > 1 and lines[1] != "-" else {}

    def has_state(self) -> bool:
        """Whether the query keeps state (none of Assay's own does)."""
        return bool(self._fs.exists(f"{self._files.folder}/state"))

    def position(self) -> Position:
        """How far the query has read its source, counting committed batches only."""
        last = max(self._files.numbers("commits"), default=-1)
        if last < 0:
            return START
        return self._files.offset(last)[0]

    def source_version(self, batch: int) -> int:
        """The newest source version that a batch has read from (its offset was written before the batch began)."""
        reached, _ = self._files.offset(batch)
        return reached.version if reached.index >= 0 else reached.version - 1

    def _begin(self) -> Generation:
        source = lake_table(self._settings, self._source)
        source_id = "" if source is None else str(source.metadata().id)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        made = Generation(self._name, str(self._table), str(self._source), source_id, uuid.uuid4().hex[:12], now)
        write_whole(self._fs, f"{self._files.folder}/{GENERATION_FILE}", made.text())
        return made

    def _faults_of_a_first_start(self) -> Iterator[CheckpointDamaged]:
        for table in self._writes:
            if lake_table(self._settings, table) is not None:
                yield CheckpointDamaged(
                    f"{self._files.location_of(GENERATION_FILE)} is missing although {table} was already written: started without its "
                    f"checkpoint, the query would read everything again. {self._mend}"
                )
                return
        if self._files.numbers("offsets") or self._files.numbers("commits"):
            yield CheckpointDamaged(
                f"{self._files.location_of(GENERATION_FILE)} is missing from a checkpoint that was in use. {self._mend}"
            )

    def generations(self) -> list[int]:
        """The numbers of all generations that are there, in no order."""
        return [int(name[1:]) for name in self._generations()]

    def _generations(self) -> list[str]:
        if not self._fs.exists(self._folder):
            return []
        names = (str(path).rstrip("/").rsplit("/", 1)[-1] for path in self._fs.ls(self._folder, detail=False))
        return [name for name in names if name[:1] == "v" and name[1:].isdigit()]
