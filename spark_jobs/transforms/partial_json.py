"""Parts of JSON text: read a few fields, keep the rest as text. For looking into free-form columns such as request_parameters."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T


def read_fields(frame: DataFrame, column: str, fields: T.StructType, *, into: str) -> DataFrame:
    """Add a struct of the fields named in `fields`; a field of type string keeps an unknown sub-tree below it as JSON text.

    For reading, not for keeping: Spark writes that text anew (1.10 becomes 1.1), and what is not named or does not fit is null.
    """
    return frame.withColumn(into, F.from_json(column, fields, {"mode": "PERMISSIVE"}))


def take_fields(frame: DataFrame, column: str, names: Sequence[str]) -> DataFrame:
    """Add one text column for each top-level field, under the field's name; null where the text has no such field."""
    return frame.select("*", F.json_tuple(column, *names).alias(*names))


def write_json(frame: DataFrame, columns: Sequence[str], *, into: str, keep_nulls: bool = False) -> DataFrame:
    """Add the columns as one JSON object in text; null fields are left out unless `keep_nulls`."""
    return frame.withColumn(into, F.to_json(F.struct(*columns), {"ignoreNullFields": str(not keep_nulls).lower()}))
