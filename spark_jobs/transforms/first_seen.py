"""The first event of each value, for several kinds of value at once."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def first_of_each(events: DataFrame, *, kinds: Sequence[tuple[str, str]], time: str, key: str, keeps: Sequence[str]) -> DataFrame:
    """One row per kind and value: `kind`, `value`, `first_event_at`, the key of that event and the columns of it in `keeps`.

    `kinds` are pairs of a kind's name and the column of its values; nulls are left out. Of several events at the same instant the one
    with the smallest key is first, so the result does not depend on the order of the rows.
    """
    values = F.array(*[F.struct(F.lit(kind).alias("kind"), F.col(column).alias("value")) for kind, column in kinds])
    offered = events.select(F.struct(F.col(time).alias("first_event_at"), key, *keeps).alias("event"), F.inline(values))
    first = offered.where("value is not null").groupBy("kind", "value").agg(F.min("event").alias("first"))
    return first.select("kind", "value", "first.first_event_at", f"first.{key}", *[f"first.{name}" for name in keeps])
