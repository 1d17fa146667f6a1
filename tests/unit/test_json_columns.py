"""Records to Arrow columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.transforms.json_columns import NotFreeForm, to_columns
from spark_jobs.transforms.json_records import JsonReader

SHAPE = {"name": "text", "isOn": "flag", "extra": "json", "who": {"arn": "text"}, "things": [{"ARN": "text", "more": "json"}]}
KIND = pa.struct(
    [
        ("name", pa.string()),
        ("is_on", pa.bool_()),
        ("extra", pa.string()),
        ("who", pa.struct([("arn", pa.string())])),
        ("things", pa.list_(pa.struct([("arn", pa.string()), ("more", pa.string())]))),
    ]
)
READER = JsonReader(SHAPE)
EMPTY = {"name": None, "is_on": None, "extra": None, "who": None, "things": None}


def columns(*texts: str) -> list[Any]:
    records, _ = READER.read([text.encode() for text in texts])
    array = to_columns(records, SHAPE, KIND)
    array.validate(full=True)
    assert array.type == KIND
    return array.to_pylist()


def test_each_record_is_a_struct_in_its_place_and_a_broken_one_is_null() -> None:
    assert columns('{"name":"a"}', "broken", '{"isOn":false}', "", '{"name":"é"}') == [
        EMPTY | {"name": "a"},
        None,
        EMPTY | {"is_on": False},
        None,
        EMPTY | {"name": "é"},
    ]


def test_objects_keep_their_place_whether_absent_null_or_empty() -> None:
    rows = columns('{"who":{"arn":"a"}}', "{}", '{"who":null}', '{"who":{}}', '{"who":{"arn":"b"}}')
    assert [row["who"] for row in rows] == [{"arn": "a"}, None, None, {"arn": None}, {"arn": "b"}]


def test_lists_keep_their_items_whether_absent_null_or_empty() -> None:
    rows = columns('{"things":[{"ARN":"a"},null,{"ARN":"b","more":[1]}]}', "{}", '{"things":[]}', '{"things":null}', '{"things":[{}]}')
    assert [row["things"] for row in rows] == [
        [{"arn": "a", "more": None}, None, {"arn": "b", "more": "[1]"}],
        None,
        [],
        None,
        [{"arn": None, "more": None}],
    ]


def test_free_form_parts_are_their_exact_text_and_null_is_null() -> None:
    rows = columns('{"extra":{"a": 1.10}}', '{"extra":null}', "{}", '{"extra":[ ]}', '{"extra":{"null":null}}')
    assert [row["extra"] for row in rows] == ['{"a": 1.10}', None, None, "[ ]", '{"null":null}']


@pytest.mark.parametrize("value", ['"{}"', "1", "-1", "true", "false", '"n"'])
def test_a_free_form_part_of_another_kind_is_refused_wherever_it_is(value: str) -> None:
    with pytest.raises(NotFreeForm):
        columns('{"extra":{}}', f'{{"extra":{value}}}')
    with pytest.raises(NotFreeForm):
        columns('{"things":[{},{"more":' + value + "}]}")


def test_no_record_at_all_gives_columns_of_the_right_type() -> None:
    assert columns() == []
    assert columns("", "broken") == [None, None]
