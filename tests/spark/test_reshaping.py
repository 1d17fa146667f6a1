"""Reshaping helpers on small frames."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.transforms import reshaping

SCHEMA = "id int, who struct<name string, home struct<city string>>, tags map<string,string>, items array<struct<arn string, n int>>"
ROWS: list[Any] = [
    (1, ("a", ("Bern",)), {"k": "v"}, [("x", 1), ("y", 2)]),
    (2, ("b", None), {}, []),
    (3, None, None, None),
    (4, ("b", ("Wien",)), {"k": None}, [None, ("z", 3)]),
]


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, SCHEMA)


def values(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.orderBy("id").collect()] if "id" in frame.columns else [tuple(row) for row in frame.collect()]


def test_selects_dotted_paths_under_new_names(frame: DataFrame) -> None:
    taken = reshaping.select_paths(frame, {"id": "id", "city": "who.home.city", "arns": "items.arn"})
    assert taken.columns == ["id", "city", "arns"]
    assert values(taken) == [(1, "Bern", ["x", "y"]), (2, None, []), (3, None, None), (4, "Wien", [None, "z"])]


def test_flattens_a_struct_into_its_fields(frame: DataFrame) -> None:
    flat = reshaping.flatten_struct(frame.select("id", "who"), "who")
    assert flat.columns == ["id", "who_name", "who_home"]
    assert [row[:2] for row in values(flat)] == [(1, "a"), (2, "b"), (3, None), (4, "b")]
    assert reshaping.flatten_struct(frame, "who", prefix="").columns == ["id", "tags", "items", "name", "home"]


def test_flattening_refuses_a_name_that_is_taken_and_a_column_that_is_no_struct(frame: DataFrame) -> None:
    with pytest.raises(ValueError, match="would make name twice"):
        reshaping.flatten_struct(frame.withColumnRenamed("id", "name"), "who", prefix="")
    with pytest.raises(ValueError, match="not a struct"):
        reshaping.flatten_struct(frame, "items")


def test_nesting_is_the_inverse_of_flattening(frame: DataFrame) -> None:
    some = frame.where("who is not null").select("id", "who")
    flat = reshaping.flatten_struct(some, "who", prefix="")
    assert values(reshaping.nest_columns(flat, ["name", "home"], into="who")) == values(some)


def test_takes_an_item_of_a_map_or_an_array_and_null_where_there_is_none(frame: DataFrame) -> None:
    assert values(reshaping.take_item(frame, "tags", "k", into="k").select("id", "k")) == [(1, "v"), (2, None), (3, None), (4, None)]
    first = reshaping.take_item(frame, "items", 1, into="second").select("id", "second.arn")
    assert values(first) == [(1, "y"), (2, None), (3, None), (4, "z")]


def test_explodes_items_and_keeps_rows_that_have_none(frame: DataFrame) -> None:
    items = reshaping.explode_items(frame.select("id", "items"), "items", into="item", position="at").select("id", "at", "item.n")
    assert sorted(values(items), key=repr) == sorted(
        [(1, 0, 1), (1, 1, 2), (2, None, None), (3, None, None), (4, 0, None), (4, 1, 3)], key=repr
    )
    assert reshaping.explode_items(frame, "items", into="item").columns == ["id", "who", "tags", "item"]


def test_collects_lists_and_sets_in_a_fixed_order(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, "b"), (1, "a"), (1, "b"), (1, None), (2, None)], "id int, v string")
    assert values(reshaping.collect_items(rows, ["id"], "v", into="all")) == [(1, ["a", "b", "b"]), (2, [])]
    assert values(reshaping.collect_items(rows, ["id"], "v", into="each", is_set=True)) == [(1, ["a", "b"]), (2, [])]


def test_takes_one_field_of_each_item(frame: DataFrame) -> None:
    arns = reshaping.field_of_items(frame, "items", "arn", into="arns").select("id", "arns")
    assert values(arns) == [(1, ["x", "y"]), (2, []), (3, None), (4, [None, "z"])]


def test_names_with_dots_are_names(spark: SparkSession) -> None:
    odd = spark.createDataFrame([(1, ("x",))], "id int, `a.b` struct<`c.d`:string>")
    assert values(reshaping.flatten_struct(odd, "a.b", prefix="")) == [(1, "x")]
    assert reshaping.nest_columns(odd, ["a.b"], into="n").columns == ["id", "n"]
