"""Two computations of one gold table, cell by cell: what differs, in words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN = 20  # differences that are named; all are counted


@dataclass(frozen=True)
class AuditResult:
    """What the audit of one table found. `mismatches` name window or value, key, column, what gold says and what silver says."""

    table: str
    mode: str  # full or sample
    cells: int
    cells_total: int
    mismatched: int
    silver_version: int
    gold_version: int
    mismatches: tuple[dict[str, Any], ...]
    sentence: str = ""

    @property
    def is_equal(self) -> bool:
        return self.mismatched == 0


def compare(expected: DataFrame, found: DataFrame, key: list[str]) -> tuple[int, int, list[dict[str, Any]]]:
    """Whole rows both ways: what gold lacks, what it has too much or twice, and what differs.

    Returns how many cells there are on either side, how many of them differ, and the first differences by key.
    """
    from pyspark.sql import functions as F

    values = [name for name in expected.columns if name not in key]
    there = [F.col(name) if name in found.columns else F.lit(None).cast(expected.schema[name].dataType).alias(name) for name in values]
    silver = expected.select(*key, F.struct(*values).alias("silver"))
    gold = found.select(*key, F.struct(*there).alias("row")).groupBy(*key).agg(F.count("*").alias("times"), F.min("row").alias("gold"))
    pairs = silver.join(gold, on=key, how="full").withColumn("differs", F.expr("not (silver <=> gold) or times > 1"))
    counted = pairs.agg(F.count("*").alias("cells"), F.count_if("differs").alias("mismatched")).first()
    cells, mismatched = (counted["cells"], counted["mismatched"]) if counted else (0, 0)
    shown: list[dict[str, Any]] = []
    if mismatched:
        for row in pairs.where("differs").orderBy(*key).limit(SHOWN).collect():
            shown += _named(key, values, row.asDict(recursive=True))
    return cells, mismatched, shown[:SHOWN]


def _named(key: list[str], values: list[str], pair: dict[str, Any]) -> list[dict[str, Any]]:
    """One entry per column that differs; a row that only one side has is one entry."""
    cell = {name: _plain(pair[name]) for name in key}
    gold, silver = pair["gold"], pair["silver"]
    if gold is None or silver is None:
        return [cell | {"column": "(the whole row)", "gold": _told(gold), "silver": _told(silver)}]
    if pair["times"] > 1:
        return [cell | {"column": "(the whole row)", "gold": f"{pair['times']} rows", "silver": "one row"}]
    return [
        cell | {"column": name, "gold": _plain(gold[name]), "silver": _plain(silver[name])} for name in values if gold[name] != silver[name]
    ]


def _told(row: dict[str, Any] | None) -> str:
    return "no row" if row is None else ", ".join(f"{name}={_plain(value)}" for name, value in row.items() if not name.startswith("window"))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value if value is None or isinstance(value, (int, float, str, bool)) else str(value)


def with_sentence(result: AuditResult) -> AuditResult:
    of = f"{result.cells:,} of {result.cells_total:,} cells" if result.mode == "sample" else f"all {result.cells:,} cells"
    at = f"silver's version {result.silver_version}"
    if result.is_equal:
        return replace(result, sentence=f"{result.table}: {of} compared with {at}, all equal.")
    first = result.mismatches[0]
    cell = ", ".join(f"{name} {value}" for name, value in first.items() if name not in ("column", "gold", "silver"))
    said = f"gold says {first['gold']}, silver says {first['silver']}"
    return replace(
        result,
        sentence=f"{result.table}: {result.mismatched:,} of {result.cells:,} cells compared differ from {at}. First: {cell}: "
        f"{first['column']}: {said}. Remove the table's folder to have all of it computed again, or recompute its days by a backfill.",
    )
