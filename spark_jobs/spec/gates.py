"""What a gate says: severities, policies, and the verdict on one batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["critical", "warning", "info"]  # Great Expectations' own words
Outcome = Literal["pass", "warn", "hold", "stop"]
OUTCOMES: tuple[Outcome, ...] = ("pass", "warn", "hold", "stop")  # mild to strict


@dataclass(frozen=True, slots=True)
class GatePolicy:
    """What a failed expectation of each severity does to its batch.

    stop: nothing is committed, later layers wait. hold: the batch goes to `<table>_held`, good data flows on.
    warn: it is published, and said.
    """

    critical: Outcome = "stop"
    warning: Outcome = "hold"
    info: Outcome = "warn"

    def consequence(self, severity: Severity) -> Outcome:
        return {"critical": self.critical, "warning": self.warning, "info": self.info}[severity]

    def without_hold(self) -> GatePolicy:
        """The same for a table that cannot hold a batch back: there `hold` is `stop`."""
        return GatePolicy(*("stop" if outcome == "hold" else outcome for outcome in (self.critical, self.warning, self.info)))


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One expectation evaluated on one batch."""

    expectation: str  # snake_case type, e.g. expect_column_values_to_not_be_null
    column: str  # column or columns it looked at, "" for the table
    severity: Severity
    success: bool
    sentence: str  # what was expected, in words
    observed: str  # what was seen, short
    element_count: int = 0
    unexpected_count: int = 0
    sample: tuple[str, ...] = ()  # a few unexpected values, masked
    exception: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A suite's verdict on one batch of one table."""

    table: str
    batch_id: str
    suite: str
    outcome: Outcome
    sentence: str  # one line for a person: which expectations failed, and what follows
    checks: tuple[CheckResult, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
