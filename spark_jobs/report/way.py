"""The way of one record as data: the places it was looked for, and where it ends."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Step:
    """One place the record was looked for. `state` is one word: found, quarantined, duplicate, held, counted, missing, waiting, failed."""

    layer: str
    table: str
    state: str
    sentence: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass
class Trace:
    """The way of one record. `ends` is the word of the place where it stays; `sentence` says so to a person."""

    rid: str
    steps: list[Step] = field(default_factory=list)
    ends: str = "unknown"
    sentence: str = ""

    def add(self, layer: str, table: object, state: str, sentence: str, **facts: Any) -> None:
        self.steps.append(Step(layer, str(table), state, sentence, facts))

    def end(self, state: str, sentence: str) -> Trace:
        self.ends, self.sentence = state, sentence
        return self

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
