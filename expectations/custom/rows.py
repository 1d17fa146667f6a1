"""Expectations about rows: conditions that every row satisfies, and keys that no two rows share.

A condition that is unknown (null) for a row is not satisfied by it. Where a value may be absent, the expectation says so.
"""

from __future__ import annotations

from typing import Any, ClassVar

from expectations.custom.audit import AuditExpectation
from expectations.gx import pydantic


class ExpectRowsToSatisfy(AuditExpectation):
    """Each row satisfies a Spark SQL condition.

    columns: what the condition looks at; they must exist, and samples show them.
    """

    columns: list[str]
    condition: str = ""

    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.row_count", "rows.breaking")
    success_keys: ClassVar[tuple[str, ...]] = ("columns", "condition")
    sample_metric: ClassVar[str] = "rows.breaking.sample"

    def _validate(self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None) -> dict[str, Any]:
        rows, breaking = metrics["table.row_count"], metrics["rows.breaking"]
        return self.found(metrics, unexpected=breaking, observed=f"{breaking} of {rows} rows do not")


class ExpectColumnToBePresent(ExpectRowsToSatisfy):
    """The column is not null in any row."""

    @pydantic.root_validator(pre=True)
    def _condition(cls, values: dict[str, Any]) -> dict[str, Any]:
        return values | {"condition": f"{values['columns'][0]} is not null"}


class ExpectColumnToMatch(ExpectRowsToSatisfy):
    """The whole text of the column matches a Java regular expression. A null passes only with `nullable`."""

    pattern: str
    nullable: bool = False
    success_keys: ClassVar[tuple[str, ...]] = ("columns", "condition", "pattern", "nullable")

    @pydantic.root_validator(pre=True)
    def _condition(cls, values: dict[str, Any]) -> dict[str, Any]:
        return values | {"condition": _or_null(values, f"rlike({values['columns'][0]}, r'^(?:{values['pattern']})\\z')")}


class ExpectColumnToBeAmong(ExpectRowsToSatisfy):
    """The column has one of the listed texts. A null passes only with `nullable`."""

    among: list[str]
    nullable: bool = False
    success_keys: ClassVar[tuple[str, ...]] = ("columns", "condition", "among", "nullable")

    @pydantic.root_validator(pre=True)
    def _condition(cls, values: dict[str, Any]) -> dict[str, Any]:
        listed = ", ".join(f"r'{text}'" for text in values["among"])
        return values | {"condition": _or_null(values, f"{values['columns'][0]} in ({listed})")}


class ExpectKeyToBeUnique(AuditExpectation):
    """No two rows have equal values in all the columns. Two nulls are equal."""

    columns: list[str]

    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.row_count", "key.hashes")
    success_keys: ClassVar[tuple[str, ...]] = ("columns",)
    sample_metric: ClassVar[str] = "key.repeats.sample"
    exact_metric: ClassVar[str] = "key.repeats"

    def _validate(self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None) -> dict[str, Any]:
        rows = metrics["table.row_count"]
        repeats = metrics.get("key.repeats", rows - metrics["key.hashes"])
        return self.found(metrics, unexpected=repeats, observed=f"{repeats} of {rows} rows repeat a key")


class ExpectKeyToStandInOnePlace(AuditExpectation):
    """No value of `key` stands beside two values of the other columns: the same key under two dates is two keys to a table of dates."""

    key: list[str]
    columns: list[str]  # the key and the columns that must be one for each key

    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.row_count", "key.hashes", "key.hashes.within")
    success_keys: ClassVar[tuple[str, ...]] = ("key", "columns")
    sample_metric: ClassVar[str] = "key.divided.sample"
    exact_metric: ClassVar[str] = "key.divided"

    def _validate(self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None) -> dict[str, Any]:
        divided = metrics.get("key.divided", metrics["key.hashes"] - metrics["key.hashes.within"])
        return self.found(metrics, unexpected=divided, observed=f"{divided} keys stand in more than one place")


def _or_null(values: dict[str, Any], condition: str) -> str:
    return f"{values['columns'][0]} is null or {condition}" if values.get("nullable") else condition
