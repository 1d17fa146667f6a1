"""What one reading of one landed file found: its outcome and its pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from spark_jobs.io.landed_file import LandedFile
from spark_jobs.io.record_pieces import Split


class Piece(NamedTuple):
    """A record (`rule` is None), or a part of the document that is not one, with the rule it breaks. `text` is its exact bytes."""

    record_index: int
    text: memoryview
    rule: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class FileReading:
    """The facts of a reading are complete before the first piece is taken: a file that failed never gave away a record.

    `rule` and `reason` are None when the outcome is `ok`. `bytes` are stored, `inflated_bytes` what they inflate to, both None where
    they were not found out; so is `sha256`, the hash of the stored bytes. `records` counts all pieces, `quarantined` those of them
    that are not records: written = records - quarantined, record_index = 0 … records - 1.
    """

    entry: LandedFile
    rule: str | None = None
    reason: str | None = None
    heals: bool = False
    sha256: str | None = None
    bytes: int | None = None
    inflated_bytes: int | None = None
    notes: str | None = None
    split: Split = field(default_factory=Split, repr=False)

    @property
    def outcome(self) -> str:
        return "failed" if self.rule else "ok"

    @property
    def records(self) -> int:
        return len(self.split.pieces)

    @property
    def quarantined(self) -> int:
        return len(self.split.flaws)

    def pieces(self) -> Iterator[Piece]:
        """All pieces in the order of the document."""
        flaws = self.split.flaws
        for index, piece in enumerate(self.split.pieces):
            rule, reason = flaws.get(index, (None, None))
            yield Piece(index, memoryview(piece), rule, reason)
