"""The checkpoint of a query: its generation, how far it has read, and whether it is whole.

Spark starts silently from scratch, or from the wrong place, when some of these files are gone (losing `metadata` alone gives the query a
new id and a replay doubles). So they are compared with each other and with the table before anything is written.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from spark_jobs.io.delta_log import START, Position, RestoredToUnknown, versions_in_force
from spark_jobs.io.lake import lake_table, storage
from spark_jobs.spec.errors import CheckpointDamaged
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId

GENERATION_FILE = "assay.json"
OFFSET_LINE = 2  # of an offsets file: version, the batch's settings, then one line per source
_MEND = "Restore the folder from a backup made with the tables, or restore the file; nothing was written by this run."
_UNDO = (
    "A restart would leave a hole. If a RESTORE is the table's last commit, remove that commit's file from its _delta_log; else restore "
    "the lake from a backup. Nothing was written by this run."
)
_BATCH = re.compile(r"v\d+-\d{8}")


@dataclass(frozen=True, slots=True)
class Generation:
    """What a checkpoint belongs to; written into it before the query's first start."""

    name: str  # v1, v2, …
    table: str
    source: str
    source_id: str  # the Delta table id of the source, so that a swapped table is noticed
    nonce: str  # makes the transaction id of this checkpoint unlike any other's
    created_at: str


class Checkpoint:
    """The newest generation of the checkpoint of the query that writes `table` from `source`."""

    def __init__(self, settings: Settings, table: TableId, source: TableId, *, writes: tuple[TableId, ...] = ()) -> None:
        """`writes`: the tables whose existence proves that the query once ran (default: the table and its side tables)."""
        self._settings = settings
        self._table, self._source = table, source
        self._writes = writes or (table, table.side("quarantine"), table.side("held"))
        self._fs, self._folder = storage(settings.checkpoint(table))
        self._name = max(self._generations(), key=lambda name: int(name[1:]), default="v1")

    @property
    def location(self) -> str:
        """What Spark is given as checkpointLocation."""
        return f"{self._settings.checkpoint(self._table)}/{self._name}"

    @property
    def source(self) -> TableId:
        return self._source

    @property
    def generation(self) -> str:
        return self._name

    def batch_id(self, batch: int) -> str:
        """The `_batch_id` of a micro-batch: v1-00000003."""
        return f"{self._name}-{batch:08d}"

    def newest_batch_id(self) -> str:
        """That of the newest batch that was finished."""
        return self.batch_id(max(self._numbers("commits"), default=0))

    def open(self) -> Generation:
        """The generation, made if this is the query's first start. Raises CheckpointDamaged when the checkpoint is not whole."""
        path = f"{self._folder}/{self._name}/{GENERATION_FILE}"
        source = lake_table(self._settings, self._source)
        source_id = "" if source is None else str(source.metadata().id)
        if not self._fs.exists(path):
            self._refuse_if_it_ever_ran()
            now = datetime.now(UTC).isoformat(timespec="seconds")
            made = Generation(self._name, str(self._table), str(self._source), source_id, uuid.uuid4().hex[:12], now)
            self._fs.makedirs(f"{self._folder}/{self._name}", exist_ok=True)
            self._fs.pipe_file(f"{path}.new", json.dumps(asdict(made), indent=1).encode())
            self._fs.mv(f"{path}.new", path)  # a driver killed here leaves a whole file or none
            return made
        try:
            known = Generation(**json.loads(self._fs.cat_file(path)))
        except (ValueError, TypeError) as fault:
            raise CheckpointDamaged(f"{self._location_of(GENERATION_FILE)} is not readable ({fault}). {_MEND}") from None
        if (known.table, known.source) != (str(self._table), str(self._source)):
            raise CheckpointDamaged(
                f"The checkpoint {self.location} belongs to {known.table} reading {known.source}, "
                f"not to {self._table} reading {self._source}. {_MEND}"
            )
        if known.source_id != source_id:
            raise CheckpointDamaged(
                f"The checkpoint {self.location} was made for another {self._source} (table id {known.source_id}, "
                f"now {source_id or 'missing'}): the source was replaced. {_MEND}"
            )
        self._check_files(source_id)
        return known

    def check_against(self, transaction: int | None) -> None:
        """Compare with the last batch that the table's log says was committed, and with the one it ends with. Raises CheckpointDamaged."""
        offsets, commits = self._numbers("offsets"), self._numbers("commits")
        last_offset, last_commit = max(offsets, default=-1), max(commits, default=-1)
        committed = -1 if transaction is None else transaction
        if committed > last_offset:
            raise CheckpointDamaged(
                f"{self._location_of(f'offsets/{committed}')} is missing: {self._table} holds batch {committed}, the checkpoint knows "
                f"batches up to {last_offset}. A restart would read again what is already in the table. {_MEND}"
            )
        if committed < last_commit:
            raise CheckpointDamaged(
                f"{self._table} holds batches up to {committed}, its checkpoint {self.location} says {last_commit} were committed: "
                f"the table was set back, removed or replaced, and a restart would leave a hole. {_MEND}"
            )
        self._check_in_force(self.batch_id(committed) if committed >= 0 else None)

    def _check_in_force(self, batch_id: str | None) -> None:
        """A RESTORE takes rows back but not their transactions, so the newest commit that still counts must be the last batch's."""
        try:
            for version, info in versions_in_force(self._settings, self._table):
                left = json.loads(info.get("userMetadata") or "{}").get("batch_id", "")
                if not _BATCH.fullmatch(left):
                    continue  # a commit of somebody else, or of a decision on a held batch
                if left != batch_id:
                    raise CheckpointDamaged(
                        f"{self._table} ends with batch {left} (its version {version}), the checkpoint {self.location} with "
                        f"{batch_id or 'none'}: the table was restored to an older version, or this is not its newest checkpoint. {_UNDO}"
                    )
                return
        except RestoredToUnknown as restored:
            commit = f"{self._settings.location(self._table)}/_delta_log/{restored.args[0]:020d}.json"
            raise CheckpointDamaged(f"{commit} restored {self._table} to a point in time. {_UNDO}") from None

    def position(self) -> Position:
        """How far the query has read its source, counting committed batches only."""
        last = max(self._numbers("commits"), default=-1)
        if last < 0:
            return START
        return self._offset(last)[0]

    def source_version(self, batch: int) -> int:
        """The newest source version that a batch has read from (its offset was written before the batch began)."""
        reached, _ = self._offset(batch)
        return reached.version if reached.index >= 0 else reached.version - 1

    def _refuse_if_it_ever_ran(self) -> None:
        for table in self._writes:
            if lake_table(self._settings, table) is not None:
                raise CheckpointDamaged(
                    f"{self._location_of(GENERATION_FILE)} is missing although {table} was already written: started without its "
                    f"checkpoint, the query would read everything again. {_MEND}"
                )
        if self._numbers("offsets") or self._numbers("commits"):
            raise CheckpointDamaged(f"{self._location_of(GENERATION_FILE)} is missing from a checkpoint that was in use. {_MEND}")

    def _check_files(self, source_id: str) -> None:
        offsets, commits = self._numbers("offsets"), self._numbers("commits")
        if not offsets and not commits:
            return
        self._lines("metadata", first="{")
        for name, numbers in (("offsets", offsets), ("commits", commits)):
            for number in range(min(numbers, default=0), max(numbers, default=-1) + 1):
                if number not in numbers:
                    raise CheckpointDamaged(f"{self._location_of(f'{name}/{number}')} is missing between others. {_MEND}")
        for number in sorted(commits)[-2:]:  # the ones that a restart reads
            self._lines(f"commits/{number}")
        for number in sorted(offsets)[-2:]:
            _, read_from = self._offset(number)
            if read_from != source_id:
                raise CheckpointDamaged(
                    f"{self._location_of(f'offsets/{number}')} counts in another table (id {read_from}) than {self._source} "
                    f"(id {source_id}). {_MEND}"
                )
        last_offset, last_commit = max(offsets, default=-1), max(commits, default=-1)
        if last_offset < last_commit:
            raise CheckpointDamaged(f"{self._location_of(f'offsets/{last_commit}')} is missing: its commit is there. {_MEND}")
        if last_offset > last_commit + 1:
            missing = self._location_of(f"commits/{last_offset - 1}")
            raise CheckpointDamaged(f"{missing} is missing: batch {last_offset} was begun after it. {_MEND}")

    def _offset(self, batch: int) -> tuple[Position, str]:
        """How far a batch was to read, and the id of the Delta table that this counts in."""
        name = f"offsets/{batch}"
        lines = self._lines(name)
        try:
            return Position.of_offset(lines[OFFSET_LINE]), str(json.loads(lines[OFFSET_LINE])["reservoirId"])
        except (IndexError, KeyError, TypeError, ValueError):
            raise CheckpointDamaged(f"{self._location_of(name)} is damaged: it does not name a place in a Delta table. {_MEND}") from None

    def _lines(self, name: str, first: str = "v") -> list[str]:
        """The lines of a checkpoint file, each checked to be the JSON it should be."""
        try:
            lines: list[str] = self._fs.cat_file(f"{self._folder}/{self._name}/{name}").decode().splitlines()
        except FileNotFoundError:
            raise CheckpointDamaged(f"{self._location_of(name)} is missing. {_MEND}") from None
        except UnicodeDecodeError:
            raise CheckpointDamaged(f"{self._location_of(name)} is damaged: it is not text. {_MEND}") from None
        try:
            if not lines or not lines[0].startswith(first) or (first == "v" and len(lines) < 2):
                raise ValueError("it is empty or its first line is not what Spark writes")
            for line in lines[1 if first == "v" else 0 :]:
                if line != "-":
                    json.loads(line)
        except ValueError as fault:
            raise CheckpointDamaged(f"{self._location_of(name)} is damaged: {fault}. {_MEND}") from None
        return lines

    def _location_of(self, name: str) -> str:
        return f"{self.location}/{name}"

    def _numbers(self, name: str) -> set[int]:
        folder = f"{self._folder}/{self._name}/{name}"
        self._fs.invalidate_cache(folder)
        if not self._fs.exists(folder):
            return set()
        names = (str(path).rsplit("/", 1)[-1] for path in self._fs.ls(folder, detail=False))
        return {int(name) for name in names if name.isdigit()}

    def _generations(self) -> list[str]:
        if not self._fs.exists(self._folder):
            return []
        names = (str(path).rstrip("/").rsplit("/", 1)[-1] for path in self._fs.ls(self._folder, detail=False))
        return [name for name in names if name[:1] == "v" and name[1:].isdigit()]
