"""The files of one generation of a checkpoint, as Spark writes them: which are there, what they say, and whether they fit together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.io.delta_log import START, Position
from spark_jobs.spec.errors import CheckpointDamaged
from spark_jobs.spec.tables import TableId

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

OFFSET_LINE = 2  # of an offsets file: version, the batch's settings, then one line per source


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """`folder` on its file system; `location` is its name for a person, `mend` what he is told to do about a damage."""

    fs: AbstractFileSystem
    folder: str
    location: str
    mend: str

    def faults(self, source: TableId, source_id: str) -> Iterator[CheckpointDamaged]:
        offsets, commits = self.numbers("offsets"), self.numbers("commits")
        if not offsets and not commits:
            return
        yield from _raised(self.lines, "metadata", "{")
        for name, numbers in (("offsets", offsets), ("commits", commits)):
            for number in range(min(numbers, default=0), max(numbers, default=-1) + 1):
                if number not in numbers:
                    yield CheckpointDamaged(f"{self.location_of(f'{name}/{number}')} is missing between others. {self.mend}")
        for number in sorted(commits)[-2:]:  # the ones that a restart reads
            yield from _raised(self.lines, f"commits/{number}")
        for number in sorted(offsets)[-2:]:
            yield from _raised(self._check_source, number, source, source_id)
        last_offset, last_commit = max(offsets, default=-1), max(commits, default=-1)
        if last_offset < last_commit:
            yield CheckpointDamaged(f"{self.location_of(f'offsets/{last_commit}')} is missing: its commit is there. {self.mend}")
        if last_offset > last_commit + 1:
            missing = self.location_of(f"commits/{last_offset - 1}")
            yield CheckpointDamaged(f"{missing} is missing: batch {last_offset} was begun after it. {self.mend}")

    def _check_source(self, batch: int, source: TableId, source_id: str) -> None:
        _, read_from = self.offset(batch)
        if read_from != source_id:
            raise CheckpointDamaged(
                f"{self.location_of(f'offsets/{batch}')} counts in another table (id {read_from}) than {source} "
                f"(id {source_id}). {self.mend}"
            )

    def offset(self, batch: int) -> tuple[Position, str]:
        """How far a batch was to read, and the id of the Delta table that this counts in."""
        name = f"offsets/{batch}"
        lines = self.lines(name)
        try:
            place = json.loads(lines[OFFSET_LINE])
            within_snapshot = bool(place.get("isStartingVersion"))  # then nothing of the log counts as read
            return START if within_snapshot else Position.of_offset(lines[OFFSET_LINE]), str(place["reservoirId"])
        except (IndexError, KeyError, TypeError, ValueError):
            said = "it does not name a place in a Delta table"
            raise CheckpointDamaged(f"{self.location_of(name)} is damaged: {said}. {self.mend}") from None

    def log_begin(self, batch: int) -> int:
        """The oldest version whose commit a stream needs that begins where this batch has ended."""
        if batch not in self.numbers("offsets"):
            return 0
        self.offset(batch)
        return int(json.loads(self.lines(f"offsets/{batch}")[OFFSET_LINE])["reservoirVersion"])

    def lines(self, name: str, first: str = "v") -> list[str]:
        """The lines of a checkpoint file, each checked to be the JSON it should be."""
        try:
            lines: list[str] = self.fs.cat_file(f"{self.folder}/{name}").decode().splitlines()
        except FileNotFoundError:
            raise CheckpointDamaged(f"{self.location_of(name)} is missing. {self.mend}") from None
        except UnicodeDecodeError:
            raise CheckpointDamaged(f"{self.location_of(name)} is damaged: it is not text. {self.mend}") from None
        try:
            if not lines or not lines[0].startswith(first) or (first == "v" and len(lines) < 2):
                raise ValueError("it is empty or its first line is not what Spark writes")
            for line in lines[1 if first == "v" else 0 :]:
                if line != "-":
                    json.loads(line)
        except ValueError as fault:
            raise CheckpointDamaged(f"{self.location_of(name)} is damaged: {fault}. {self.mend}") from None
        return lines

    def location_of(self, name: str) -> str:
        return f"{self.location}/{name}"

    def numbers(self, name: str) -> set[int]:
        """The batches that have a file in `offsets` or `commits`."""
        folder = f"{self.folder}/{name}"
        self.fs.invalidate_cache(folder)
        if not self.fs.exists(folder):
            return set()
        names = (str(path).rsplit("/", 1)[-1] for path in self.fs.ls(folder, detail=False))
        return {int(name) for name in names if name.isdigit()}


def _raised(check: Callable[..., Any], *arguments: object) -> Iterator[CheckpointDamaged]:
    """What a check raises, as a finding."""
    try:
        check(*arguments)
    except CheckpointDamaged as fault:
        yield fault
