"""Reading parts of JSON text."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from spark_jobs.transforms import partial_json

TEXT = '{"name":"a","size":3,"policy":{"Statement":[{"Effect":"Allow"}],"more":{"x":[1,2]}},"else":true}'


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, TEXT), (2, "{}"), (3, None), (4, "no json")], "id int, text string")


def test_a_partial_schema_keeps_an_unknown_sub_tree_as_text(frame: DataFrame) -> None:
    fields = T.StructType([T.StructField("size", T.LongType()), T.StructField("policy", T.StringType())])
    rows = partial_json.read_fields(frame, "text", fields, into="some").orderBy("id").select("some.*").collect()
    assert rows[0]["size"] == 3
    assert json.loads(rows[0]["policy"]) == json.loads(TEXT)["policy"]
    assert [tuple(row) for row in rows[1:]] == [(None, None)] * 3


def test_takes_top_level_fields_as_text(frame: DataFrame) -> None:
    rows = partial_json.take_fields(frame, "text", ["name", "size", "missing"]).orderBy("id").collect()
    assert [tuple(row)[2:] for row in rows] == [("a", "3", None), (None, None, None), (None, None, None), (None, None, None)]


def test_writes_columns_as_one_json_object(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, None, ("x",))], "id int, gone string, who struct<name string>")
    written = partial_json.write_json(rows, ["id", "gone", "who"], into="short").select("short").first()[0]
    assert written == '{"id":1,"who":{"name":"x"}}'
    full = partial_json.write_json(rows, ["id", "gone"], into="full", keep_nulls=True).select("full").first()[0]
    assert json.loads(full) == {"id": 1, "gone": None}
