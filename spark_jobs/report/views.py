"""The lake as SQL views: DuckDB over the newest version of each Delta table, without a JVM and read-only.

A table is opened when a statement names it, so a question about one table costs the log of one table. Filters and columns are pushed
down to the Parquet files through the Delta statistics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

import duckdb
import pyarrow as pa

from spark_jobs.io.lake import lake_table, rows_of
from spark_jobs.io.ops import SCHEMAS
from spark_jobs.spec.errors import AssayError, UnknownName
from spark_jobs.spec.pipeline import load_pipeline, pipeline_names
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import LAYERS, TableId

THREADS = 2  # a question is asked beside running jobs
ROWS_PER_BATCH = 10_000

_NAMED = re.compile(r'\b(bronze|silver|gold|_ops)"?\s*\.\s*"?([a-z][a-z0-9_]*)', re.IGNORECASE)
_READING = {"SELECT", "EXPLAIN"}
_FIRST_WORDS = ("select", "with", "from", "describe", "show", "summarize", "explain", "values", "table", "(")


class QueryRefused(AssayError):
    """A statement that is not one reading statement, or that DuckDB cannot run; its text says why."""

    exit_code = 2


def known_tables() -> list[TableId]:
    """Every table that an installed pipeline or Assay itself may have written, in data order."""
    tables: list[TableId] = []
    for name in pipeline_names():
        pipeline = load_pipeline(name)
        tables += pipeline.all_tables
        bronze, silver = pipeline.bronze_table, pipeline.silver_table
        tables += [bronze.side("quarantine"), bronze.side("held")]
        tables += [silver.side("quarantine"), silver.side("duplicates"), silver.side("held")]
    order = {layer: place for place, layer in enumerate(LAYERS)}
    return sorted(set(tables), key=lambda table: (order[table.layer], table.name)) + list(SCHEMAS)


def close_to(name: str) -> str:
    """A clause that suggests the known tables nearest to a wrong name, or tells how to list them."""
    names = [str(table) for table in known_tables()]
    bare = {table.split(".", 1)[1]: table for table in names}
    near = get_close_matches(name.lower(), names, 3, 0.6) or [bare[found] for found in get_close_matches(name.lower(), list(bare), 3, 0.6)]
    return f"did you mean {' or '.join(near)}?" if near else '`assay query "SHOW TABLES"` lists the tables.'


class LakeViews:
    """One DuckDB connection on one lake. Snapshots are taken at first use, so all statements of one object see the same versions."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known = {str(table): table for table in known_tables()}
        self._opened: dict[str, bool] = {}
        self._connection = duckdb.connect(":memory:", config={"threads": THREADS})
        # Statements come from people: no files, no network, no extensions, no Python variables, and no way to switch them on again.
        for setting in (
            "TimeZone='UTC'", "enable_external_access=false", "python_enable_replacements=false",
            "autoinstall_known_extensions=false", "autoload_known_extensions=false", "lock_configuration=true",
        ):  # fmt: skip
            self._connection.execute(f"SET {setting}")
        for layer in (*LAYERS, "_ops"):
            self._connection.execute(f"CREATE SCHEMA {layer}")

    def exists(self, table: TableId) -> bool:
        """True when the table was ever written."""
        return self._open(str(table), table)

    def columns(self, table: TableId) -> list[str]:
        """Names of the table's columns; none when it was never written."""
        if not self.exists(table):
            return []
        return [row["column_name"] for row in self.rows(f"DESCRIBE {_quoted(table)}")]

    def rows(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """The result of Assay's own SQL as plain Python values; every table it names must exist."""
        self._open_named(sql)
        table = self._connection.sql(sql, params=dict(parameters or {})).to_arrow_table()
        return plain_rows(table)

    def ask(self, sql: str) -> tuple[list[str], Iterator[dict[str, Any]]]:
        """Column names and rows of a person's statement. Raises QueryRefused for anything but one reading statement."""
        statement = self._only_reading(sql)
        self._open_named(statement)
        try:
            relation = self._connection.sql(statement)
            if relation is None:
                raise QueryRefused("The statement returns no rows. Ask with SELECT, WITH, DESCRIBE, SHOW or EXPLAIN.")
            return list(relation.columns), _stream(relation)
        except duckdb.Error as fault:
            raise self._refusal(fault) from None

    def _only_reading(self, sql: str) -> str:
        text = _without_comments(sql).strip().rstrip(";").strip()
        if re.fullmatch(r"show(\s+all)?\s+tables", text, re.IGNORECASE):
            return self._listing()
        try:
            statements = self._connection.extract_statements(text)
        except duckdb.Error as fault:
            raise self._refusal(fault) from None
        if len(statements) != 1:
            raise QueryRefused(f"One statement at a time: this text has {len(statements)}.")
        kind = statements[0].type.name
        body = re.sub(r"^explain(\s+analyze)?\s+", "", text, flags=re.IGNORECASE).lower()
        if kind not in _READING or not body.startswith(_FIRST_WORDS):
            raise QueryRefused("The tables are read-only here: ask with SELECT, WITH, DESCRIBE, SHOW or EXPLAIN.")
        return text

    def _listing(self) -> str:
        written = [name for name, table in self._known.items() if self.exists(table) and lake_table(self._settings, table) is not None]
        rows = ", ".join(f"('{name}')" for name in written)
        return f"SELECT * FROM (VALUES {rows}) AS t(name)" if rows else "SELECT '' AS name WHERE false"

    def _open_named(self, sql: str) -> None:
        for layer, name in _NAMED.findall(sql):
            full = f"{layer.lower()}.{name.lower()}"
            if full in self._known and not self._open(full, self._known[full]):
                raise UnknownName(f"{full} has not been written yet in {self._settings.lake_root}; a run writes it.")

    def _open(self, full: str, table: TableId) -> bool:
        if full not in self._opened:
            found = lake_table(self._settings, table)
            declared = SCHEMAS.get(table)
            if found is None and declared is None:
                self._opened[full] = False
            else:
                source = declared.empty_table() if found is None and declared else rows_of(found)  # type: ignore[arg-type]
                self._connection.register(f"source_{table.layer}_{table.name}", source)
                self._connection.execute(f'CREATE VIEW {_quoted(table)} AS SELECT * FROM "source_{table.layer}_{table.name}"')
                self._opened[full] = True
        return self._opened[full]

    def _refusal(self, fault: duckdb.Error) -> QueryRefused:
        first = " ".join(str(fault).split("LINE ")[0].split("Did you mean")[0].split())
        if missing := re.search(r"Table with name (\S+) does not exist", first):
            named = next((f"{layer}.{name}" for layer, name in _NAMED.findall(str(fault)) if name == missing[1]), missing[1])
            return QueryRefused(f"There is no table {named}: {close_to(named)}")
        hint = " Outside files and addresses are not read here." if "disabled by configuration" in first else ""
        return QueryRefused(f"The query cannot be run: {first}{hint}")


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Arrow rows as Python values; whole decimals (DuckDB's sums of integers) become int."""
    return [{name: _plain(value) for name, value in row.items()} for row in table.to_pylist()]


def in_list(values: Sequence[str]) -> str:
    """Values as the inside of an SQL IN list, quoted; never empty."""
    return ", ".join("'" + value.replace("'", "''") + "'" for value in values) or "NULL"


def _quoted(table: TableId) -> str:
    return f'{table.layer}."{table.name}"'


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value


def _stream(relation: Any) -> Iterator[dict[str, Any]]:
    for batch in relation.to_arrow_reader(ROWS_PER_BATCH):
        yield from plain_rows(pa.Table.from_batches([batch]))


def _without_comments(sql: str) -> str:
    """The statement without the comments before it."""
    return re.sub(r"\A(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)+", "", sql, flags=re.DOTALL)
