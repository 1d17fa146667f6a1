"""Expectations about figures: what the rows add up to, against what was counted elsewhere.

A figure that is missing (None) never agrees.
"""

from __future__ import annotations

from typing import Any, ClassVar

from expectations.custom.audit import AuditExpectation


class ExpectFigureToAgree(AuditExpectation):
    """Two figures that were counted on their own are equal."""

    counted: int | None
    expected: int | None

    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.row_count",)
    success_keys: ClassVar[tuple[str, ...]] = ("counted", "expected")

    def _validate(self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None) -> dict[str, Any]:
        agrees = self.counted is not None and self.counted == self.expected
        return self.found(metrics, unexpected=0 if agrees else 1, observed=f"{self.counted}, expected {self.expected}")


class ExpectFigureToBeAtMost(AuditExpectation):
    """A figure does not exceed a limit. `minutes`: both are minutes, and are said in hours or days where those are more."""

    counted: int | None
    limit: int | None
    minutes: bool = False

    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.row_count",)
    success_keys: ClassVar[tuple[str, ...]] = ("counted", "limit", "minutes")

    def _validate(self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None) -> dict[str, Any]:
        within = self.counted is not None and self.limit is not None and self.counted <= self.limit
        counted, limit = (_time(figure) if self.minutes else figure for figure in (self.counted, self.limit))
        return self.found(metrics, unexpected=0 if within else 1, observed=f"{counted}, at most {limit}")


class ExpectFigureToBeWithin(AuditExpectation):
    """A figure lies in a band. Where there is too little to judge by, `not_judged` says why, and it passes with that as what was seen."""

    counted: int | None
    low: int | None
    high: int | None
    not_judged: str = ""

    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.row_count",)
    success_keys: ClassVar[tuple[str, ...]] = ("counted", "low", "high", "not_judged")

    def _validate(self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None) -> dict[str, Any]:
        if self.not_judged and self.counted is not None:
            return self.found(metrics, unexpected=0, observed=f"{self.counted}; not judged: {self.not_judged}")
        known = self.counted is not None and self.low is not None and self.high is not None
        within = known and self.low <= self.counted <= self.high  # type: ignore[operator]  # known
        return self.found(metrics, unexpected=0 if within else 1, observed=f"{self.counted}, expected {self.low} to {self.high}")


class ExpectRowsToAddUpTo(AuditExpectation):
    """A SQL aggregate over the rows equals a figure that was counted elsewhere."""

    columns: list[str]
    expression: str
    expected: int | None

    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.row_count", "expression.value")
    success_keys: ClassVar[tuple[str, ...]] = ("columns", "expression", "expected")

    def _validate(self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None) -> dict[str, Any]:
        value = metrics["expression.value"]
        agrees = value is not None and value == self.expected
        return self.found(metrics, unexpected=0 if agrees else 1, observed=f"{value}, expected {self.expected}")


class ExpectFilesToBeWhole(AuditExpectation):
    """Each file's rows and quarantined records together are its records 0, 1, … n-1: nothing is missing, nothing is foreign.

    files: per file id, how many records were found in it and how many of them were quarantined. With unique record ids, as many
    rows as remain and no index beyond the last means that every index is there.
    """

    files: dict[str, dict[str, int]] | None
    columns: tuple[str, ...] = ("_file_id", "_record_index")

    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.row_count", "files.rows")
    success_keys: ClassVar[tuple[str, ...]] = ("files", "columns")

    def _validate(self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None) -> dict[str, Any]:
        rows = metrics["files.rows"]
        if self.files is None:
            return self.found(metrics, unexpected=1, observed="the records per file were not supplied")
        faults = [f"{file}: not among the files read" for file in sorted(rows.keys() - self.files.keys())]
        for file, counts in sorted(self.files.items()):
            written, first, last = rows.get(file, (0, 0, -1))
            kept = counts["records"] - counts["quarantined"]
            if written != kept:
                faults.append(f"{file}: {written} rows, expected {kept}")
            elif written and not 0 <= first <= last < counts["records"]:
                faults.append(f"{file}: record index {first} to {last} of {counts['records']} records")
        return self.found(metrics, unexpected=len(faults), observed="; ".join(faults[:3]) or f"{len(self.files)} files whole")


def _time(minutes: int | None) -> str:
    if minutes is None or minutes < 180:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 2880 else f"{minutes // 1440:,} days"
