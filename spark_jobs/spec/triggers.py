"""Triggers as settings of a job: how often a query takes a batch. Refused before Spark starts when unknown or impossible."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from spark_jobs.spec.errors import ConfigurationFault

_EVERY = re.compile(r"every (\d{1,6}) (second|minute)s?")
_FORMS = "'once', 'every <n> seconds', 'every <n> minutes' or 'as fast as possible'"


@dataclass(frozen=True, slots=True)
class Trigger:
    """`once` takes all that is there in bounded batches and ends; the other kinds run until they are stopped."""

    kind: Literal["once", "every", "as fast as possible"]
    interval_s: int = 0

    @classmethod
    def parse(cls, text: str) -> Trigger:
        """Raises ConfigurationFault for anything that is not one of the three forms."""
        words = " ".join(text.lower().split())
        if words == "once":
            return cls("once")
        if words == "as fast as possible":
            return cls("as fast as possible")
        if words in ("continuous", "real-time"):
            raise ConfigurationFault(
                f"Trigger '{text}' is impossible here: every layer writes through a gate per micro-batch, which Spark's {words} mode "
                f"does not have. Use {_FORMS}."
            )
        if found := _EVERY.fullmatch(words):
            seconds = int(found[1]) * (60 if found[2] == "minute" else 1)
            if not 1 <= seconds <= 86_400:
                raise ConfigurationFault(f"Trigger '{text}' is out of range: an interval is 1 second to 1 day.")
            return cls("every", seconds)
        raise ConfigurationFault(f"Trigger '{text}' is not known. Use {_FORMS}.")

    @property
    def ends(self) -> bool:
        """True when the query ends by itself."""
        return self.kind == "once"

    def options(self) -> dict[str, Any]:
        """The keyword arguments for `DataStreamWriter.trigger`."""
        if self.kind == "once":
            # Trigger.Once ignores rate limits (six files, limit 1, one batch); available-now keeps its promise in bounded batches.
            return {"availableNow": True}
        return {"processingTime": f"{self.interval_s} seconds"}

    def __str__(self) -> str:
        return f"every {self.interval_s} second{'s' if self.interval_s != 1 else ''}" if self.kind == "every" else self.kind
