"""A suite: the expectations of one table, and the facts they need besides the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Suite:
    """What one table's batch must satisfy.

    `expectations` are Great Expectations objects, each with a severity and a description. `facts` are the keys that the caller must
    supply: figures the engine counted on its own, which the rows alone cannot show. A missing one stops the batch.
    """

    name: str
    expectations: tuple[Any, ...]
    facts: tuple[str, ...] = ()

    def columns(self) -> tuple[str, ...]:
        """Every column that an expectation looks at, sorted."""
        return tuple(sorted({column for expectation in self.expectations for column in looked_at(expectation)}))

    def missing_facts(self, facts: Mapping[str, Any]) -> tuple[str, ...]:
        """The keys that were not supplied (or are None)."""
        return tuple(key for key in self.facts if facts.get(key) is None)


def looked_at(expectation: Any) -> tuple[str, ...]:
    """The columns an expectation names, whether one of ours or one that ships with Great Expectations."""
    one = getattr(expectation, "column", None)
    several = getattr(expectation, "columns", None) or getattr(expectation, "column_list", None) or ()
    pair = (getattr(expectation, "column_A", None), getattr(expectation, "column_B", None))
    return tuple(dict.fromkeys(name for name in (one, *several, *pair) if name))
