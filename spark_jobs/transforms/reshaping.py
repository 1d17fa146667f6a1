"""Reshaping of structs, arrays and maps: frame in, frame out, each by its name. Field names with dots or spaces are quoted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T


def select_paths(frame: DataFrame, paths: Mapping[str, str]) -> DataFrame:
    """One column for each new name, taken from a dotted path: `{"issuer": "user_identity.session_context.session_issuer.arn"}`.

    A path through an array gives an array; null parents give null.
    """
    return frame.select(*[F.col(path).alias(name) for name, path in paths.items()])


def flatten_struct(frame: DataFrame, column: str, *, prefix: str | None = None) -> DataFrame:
    """Replace a struct column by its fields (`column.*`), each named `<prefix><field>`; the prefix is `<column>_` unless given.

    One level; a null struct gives null fields. Raises ValueError when a new name is there already, or the column is no struct.
    """
    kind = frame.schema[column].dataType
    if not isinstance(kind, T.StructType):
        raise ValueError(f"Column {column} is {kind.simpleString()}, not a struct; only a struct can be flattened.")
    start = f"{column}_" if prefix is None else prefix
    kept = [name for name in frame.columns if name != column]
    if clash := sorted({start + name for name in kind.names} & set(kept)):
        raise ValueError(f"Flattening {column} would make {', '.join(clash)} twice; give another prefix.")
    return frame.select(*kept, *[F.col(f"{_quoted(column)}.{_quoted(name)}").alias(start + name) for name in kind.names])


def nest_columns(frame: DataFrame, columns: Sequence[str], *, into: str) -> DataFrame:
    """Replace columns by one struct column that has them as fields: the inverse of `flatten_struct` with an empty prefix."""
    kept = [F.col(_quoted(name)) for name in frame.columns if name not in columns]
    return frame.select(*kept, F.struct(*[F.col(_quoted(name)) for name in columns]).alias(into))


def take_item(frame: DataFrame, column: str, key: str | int, *, into: str) -> DataFrame:
    """Add the item of a map under a key, or of an array at a position from 0. Null where there is none, also in ANSI mode."""
    values = F.col(_quoted(column))
    if isinstance(frame.schema[column].dataType, T.ArrayType):
        return frame.withColumn(into, F.get(values, F.lit(key)))
    return frame.withColumn(into, F.try_element_at(values, F.lit(key)))


def explode_items(frame: DataFrame, column: str, *, into: str, position: str | None = None) -> DataFrame:
    """One row for each item of an array; a row without items stays, with null. `position` names a column for the place, from 0."""
    kept = [F.col(_quoted(name)) for name in frame.columns if name != column]
    if position is None:
        return frame.select(*kept, F.explode_outer(_quoted(column)).alias(into))
    return frame.select(*kept, F.posexplode_outer(_quoted(column)).alias(position, into))


def collect_items(frame: DataFrame, keys: Sequence[str], column: str, *, into: str, is_set: bool = False) -> DataFrame:
    """One row for each key, with the values of a column as a sorted array: all of them, or each once with `is_set`. Nulls are left out.

    Sorted, because the order in which rows come together is no property of the data.
    """
    gather = F.collect_set if is_set else F.collect_list
    return frame.groupBy(*keys).agg(F.array_sort(gather(_quoted(column))).alias(into))


def field_of_items(frame: DataFrame, column: str, field: str, *, into: str) -> DataFrame:
    """Add an array with one field of each item of an array of structs: the ARNs of all resources. Null items give null."""

    def take(item: Column) -> Column:
        return item.getField(field)

    return frame.withColumn(into, F.transform(_quoted(column), take))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
