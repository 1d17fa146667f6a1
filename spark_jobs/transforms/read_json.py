"""JSON text to typed columns, as a Spark column expression."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import types as T
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # it is there, its stub is not
from pyspark.sql.pandas.types import to_arrow_type

from spark_jobs.transforms.json_columns import NotFreeForm, to_columns
from spark_jobs.transforms.json_records import JsonReader, Shape


def read_json(raw: Column, schema: T.StructType, named: T.StructType) -> Column:
    """Read JSON text by `schema` (JSON names) into struct<record, rule, reason, rescued>; `named` gives record's own names.

    `named` has the fields of `schema` under other names, in the same order at every depth. A string field whose metadata says `json`
    is a free-form object or array: it comes out as its exact text, byte for byte, and nothing inside it is judged.

    rule and reason say what is broken, and then record is null: invalid_utf8, unparseable_json, not_an_object, duplicate_key,
    wrong_type, too_deep, string_too_long, lone_surrogate. rescued is a JSON object from path to exact value of the fields that the
    schema does not know, at any depth; null when there are none. A record never affects another.

    A UDF, because `from_json` reads 1.10 as 1.1 and 1e400 as "Infinity" inside free-form parts, keeps the last of repeated keys,
    drops unknown fields and trailing text in silence; and it costs more.
    """
    texts = [T.StructField(name, T.StringType()) for name in ("rule", "reason", "rescued")]
    kind = T.StructType([T.StructField("record", without_metadata(named)), *texts])
    shape_text, arrow_kind = json.dumps(shape_of(schema)), to_arrow_type(kind)

    def read(texts: pa.Array) -> pa.Array:
        with _collector_paused():
            return _read_texts(texts, _reader(shape_text), arrow_kind)

    column: Column = arrow_udf(read, kind)(raw)
    return column


def _read_texts(texts: pa.Array, reader: JsonReader, kind: pa.StructType) -> pa.StructArray:
    raws = texts.cast(pa.binary()).fill_null(b"").to_pylist()
    record_kind = kind.field("record").type
    records, findings = reader.read(raws) if _is_utf8(texts) else reader.read_exactly(raws)
    try:
        columns = to_columns(records, reader.shape, record_kind)
    except NotFreeForm:
        records, findings = reader.read_exactly(raws)
        columns = to_columns(records, reader.shape, record_kind)
    if any(findings):
        parts = [pa.array([found and found[part] for found in findings], pa.string()) for part in range(3)]
    else:
        parts = [pa.nulls(len(findings), pa.string())] * 3
    return pa.StructArray.from_arrays([columns, *parts], fields=list(kind))


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Millions of short-lived tuples set off the cycle collector again and again, a quarter of the time; none is in a cycle."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def without_metadata(kind: T.DataType) -> T.DataType:
    """Spark refuses what comes back from a UDF when its declared type has metadata (ARROW_TYPE_MISMATCH)."""
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(field.name, without_metadata(field.dataType)) for field in kind.fields])
    return T.ArrayType(without_metadata(kind.elementType)) if isinstance(kind, T.ArrayType) else kind


def _is_utf8(texts: pa.Array) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


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
def _reader(shape_text: str) -> JsonReader:
    return JsonReader(json.loads(shape_text))
