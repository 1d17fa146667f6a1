"""Records to Arrow columns: one array for each field of the shape, nested as the shape is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET
from msgspec.structs import astuple

from spark_jobs.transforms.json_records import Record, Shape


class NotFreeForm(Exception):
    """A free-form part of some record is neither an object nor an array."""


def to_columns(records: Sequence[Record | None], shape: Shape, kind: pa.StructType) -> pa.StructArray:
    """One struct for each record, null for None; field by field in the order of the shape, under the names of `kind`.

    Raises NotFreeForm when a free-form part is a string, number or boolean.
    """
    rows = [astuple(record) for record in records if record is not None]
    if not rows:
        return pa.nulls(len(records), kind)
    fields = list(kind)
    columns = zip(*rows, strict=True)
    arrays = [_column(values, wanted, field.type) for values, wanted, field in zip(columns, shape.values(), fields, strict=True)]
    present = pa.StructArray.from_arrays(arrays, fields=fields)
    if len(rows) == len(records):
        return present
    positions = iter(range(len(rows)))
    return present.take(pa.array([None if record is None else next(positions) for record in records], pa.int32()))


def _column(values: Sequence[Any], wanted: Any, kind: pa.DataType) -> pa.Array:
    if wanted in ("text", "flag"):
        return pa.array(values, kind)
    if wanted == "json":
        return _free_form(values)
    if isinstance(wanted, list):
        return _lists(values, wanted[0], kind)
    return to_columns(values, wanted, kind)


def _free_form(values: Sequence[Any]) -> pa.Array:
    """The exact text of each part. Records are UTF-8 throughout (checked when they are read), so their parts are."""
    texts = pa.array([None if value is UNSET else bytes(value) for value in values], pa.binary()).view(pa.string())
    if texts.null_count == len(texts):
        return texts
    starts = pc.binary_slice(texts.view(pa.binary()), 0, 1).view(pa.string())
    if not pc.all(pc.is_in(starts, _FREE_FORM_STARTS), min_count=0).as_py():
        raise NotFreeForm
    return pc.if_else(pc.equal(starts, "n"), None, texts)


_FREE_FORM_STARTS = pa.array(["{", "[", "n", None])


def _lists(values: Sequence[Any], shape: Shape, kind: pa.ListType) -> pa.Array:
    if not any(values):
        return pa.array(values, kind)
    items: list[Any] = []
    offsets = [0]
    for value in values:
        if value:
            items.extend(value)
        offsets.append(len(items))
    is_null = pa.array([value is None for value in values])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), to_columns(items, shape, kind.value_type), type=kind, mask=is_null)
