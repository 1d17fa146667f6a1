"""The column form of the JSON inspection, and the shape it takes from a Spark schema."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_jobs.transforms.json_inspection import JsonInspector, Shape

FINDING = "struct<rule string, reason string, rescued string>"
_FINDING = pa.struct([("rule", pa.string()), ("reason", pa.string()), ("rescued", pa.string())])


def inspect_json(raw: Column, schema: T.StructType) -> Column:
    """Compare JSON text with `schema`: struct<rule, reason, rescued>, all null for a record that has its shape and nothing besides.

    rule and reason say what is broken (unparseable_json, not_an_object, duplicate_key, wrong_type, too_deep, string_too_long,
    lone_surrogate); rescued is a JSON object from path to exact value of the fields that the schema does not know, at any depth.
    A string field whose metadata says `json` is a free-form object or array; its inside is nobody's business. A UDF, because
    Spark's own reader hides all of this.
    """
    shape_text = json.dumps(shape_of(schema))

    @F.arrow_udf(FINDING)
    def find(records: pa.Array) -> pa.Array:
        inspect = _inspector(shape_text).inspect
        findings = [None if text is None else inspect(text) for text in records.cast(pa.binary()).to_pylist()]
        if not any(findings):
            nothing = pa.nulls(len(findings), pa.string())
            return pa.StructArray.from_arrays([nothing] * 3, fields=list(_FINDING))
        rows: list[Any] = [found._asdict() if found else {} for found in findings]
        return pa.array(rows, type=_FINDING)

    column: Column = find(raw)
    return column


def shape_of(schema: T.StructType) -> Shape:
    """The shape of a record schema: strings, booleans, objects and arrays of objects."""
    return {field.name: _kind_of(field) for field in schema.fields}


def _kind_of(field: T.StructField) -> Any:
    kind = field.dataType
    if isinstance(kind, T.StructType):
        return shape_of(kind)
    if isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.StructType):
        return [shape_of(kind.elementType)]
    if isinstance(kind, T.BooleanType):
        return "flag"
    if isinstance(kind, T.StringType):
        return "json" if field.metadata.get("json") else "text"
    raise TypeError(f"Field {field.name}: a record schema holds strings, booleans, objects and arrays of objects, not {kind}.")


@lru_cache(maxsize=8)
def _inspector(shape_text: str) -> JsonInspector:
    return JsonInspector(json.loads(shape_text))
