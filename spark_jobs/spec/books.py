"""Balanced books: the equations that every batch of every layer must satisfy. Each term is counted on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Books:
    """The books of one batch.

    Bronze has two equations: files_read = files_ok + files_failed, and read = written + quarantined + held (in records).
    Silver: read = written + quarantined + duplicate + held.
    Gold: read (silver rows in the touched windows, once per window they are in) = written (the sum of the counts).
    """

    read: int
    written: int
    quarantined: int = 0
    duplicate: int = 0
    held: int = 0
    files_read: int = 0
    files_ok: int = 0
    files_failed: int = 0

    @property
    def is_balanced(self) -> bool:
        records = self.read == self.written + self.quarantined + self.duplicate + self.held
        return records and self.files_read == self.files_ok + self.files_failed

    def equation(self) -> str:
        """The books as one line, `=` where they balance and `≠` where they do not."""
        sign = "=" if self.read == self.written + self.quarantined + self.duplicate + self.held else "≠"
        parts = f"{self.written} written + {self.quarantined} quarantined + {self.duplicate} duplicate + {self.held} held"
        line = f"{self.read} read {sign} {parts}"
        if not self.files_read:
            return line
        sign = "=" if self.files_read == self.files_ok + self.files_failed else "≠"
        return f"{self.files_read} files {sign} {self.files_ok} ok + {self.files_failed} failed; {line}"

    def terms(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in TERMS}


TERMS = ("read", "written", "quarantined", "duplicate", "held", "files_read", "files_ok", "files_failed")
