"""Reading JSON records: what is found, and that the fast path never says anything else than the exact way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.transforms.json_records import Finding, JsonReader, Record

SHAPE = {
    "name": "text",
    "isOn": "flag",
    "extra": "json",
    "who": {"arn": "text", "session": {"mfa": "text", "more": "json"}},
    "things": [{"ARN": "text", "part": {"isOn": "flag"}}],
}
READER = JsonReader(SHAPE)


def read(text: str | bytes) -> tuple[Record | None, Finding | None]:
    raw = text.encode() if isinstance(text, str) else text
    records, findings = READER.read([raw])
    return records[0], findings[0]


def rule_of(text: str | bytes) -> str | None:
    _, finding = READER.read_exactly([text.encode() if isinstance(text, str) else text])
    return finding[0].rule if finding[0] else None


def test_reads_a_record_that_has_its_shape() -> None:
    record, finding = read(
        '{"name":"n","isOn":true,"who":{"arn":"a","session":{"mfa":"true"}},"things":[{"ARN":"x"},null],"extra":{"a":1.10}}'
    )
    assert finding is None
    assert (record.name, record.isOn, record.who.session.mfa) == ("n", True, "true")
    assert [thing and thing.ARN for thing in record.things] == ["x", None]
    assert bytes(record.extra) == b'{"a":1.10}'


@pytest.mark.parametrize(
    ("text", "rescued"),
    [
        ('{"newer":1.10}', '{"$.newer":1.10}'),
        ('{"newer":null}', '{"$.newer":null}'),
        ('{"who":{"odd name":"é"}}', '{"$.who[\'odd name\']":"é"}'),
        ('{"who":{"session":{"deep":{"a":[1, 2]}}}}', '{"$.who.session.deep":{"a":[1, 2]}}'),
        ('{"things":[{"ARN":"a"},{"part":{"b":1e400}}]}', '{"$.things[1].part.b":1e400}'),
        ('{"x":1,"who":{"y":2},"z":"\\u00e9"}', '{"$.x":1,"$.who.y":2,"$.z":"\\u00e9"}'),
        ('{"it\'s":1}', "{\"$['it\\\\'s']\":1}"),
    ],
)
def test_rescues_unknown_fields_at_any_depth_with_path_and_exact_value(text: str, rescued: str) -> None:
    record, finding = read(text)
    assert record is not None
    assert finding == Finding(None, None, rescued)
    json.loads(rescued)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"name":"a","name":"b"}', "$.name"),
        ('{"name":"a","name":"a"}', "$.name"),
        ('{"name":"a","n\\u0061me":"b"}', "$.name"),
        ('{"who":{"arn":"a","arn":null}}', "$.who.arn"),
        ('{"who":{"session":{"mfa":"a","mfa":"b"}}}', "$.who.session.mfa"),
        ('{"things":[{},{"ARN":"a","ARN":"b"}]}', "$.things[1].ARN"),
        ('{"newer":1,"newer":2}', "$.newer"),
        ('{"":1,"":2}', "$['']"),
        ('{"extra":{},"extra":{"a":{"extra":1}}}', "$.extra"),
    ],
)
def test_a_key_that_comes_twice_breaks_the_record(text: str, path: str) -> None:
    assert read(text) == (None, Finding("duplicate_key", f"{path} is there more than once, with only one place for its value.", None))


def test_keys_inside_a_free_form_part_are_its_own_business() -> None:
    record, finding = read('{"extra":{"a":1,"a":2,"name":3}}')
    assert (bytes(record.extra), finding) == (b'{"a":1,"a":2,"name":3}', None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"name":5}', "$.name is a number where a string belongs."),
        ('{"name":{}}', "$.name is an object where a string belongs."),
        ('{"isOn":"true"}', "$.isOn is a string where a boolean belongs."),
        ('{"isOn":1}', "$.isOn is a number where a boolean belongs."),
        ('{"who":"me"}', "$.who is a string where an object belongs."),
        ('{"who":[]}', "$.who is an array where an object belongs."),
        ('{"who":{"session":{"mfa":false}}}', "$.who.session.mfa is a boolean where a string belongs."),
        ('{"things":{}}', "$.things is an object where an array belongs."),
        ('{"things":[{},7]}', "$.things[1] is a number where an object belongs."),
        ('{"things":[{"part":{"isOn":0}}]}', "$.things[0].part.isOn is a number where a boolean belongs."),
        ('{"extra":"{}"}', "$.extra is a string where an object or an array belongs."),
        ('{"who":{"session":{"more":-1}}}', "$.who.session.more is a number where an object or an array belongs."),
    ],
)
def test_a_wrong_type_is_named_with_its_path(text: str, reason: str) -> None:
    _, findings = READER.read_exactly([text.encode()])
    assert findings == [Finding("wrong_type", reason, None)]


def test_null_is_fine_everywhere() -> None:
    record, finding = read('{"name":null,"isOn":null,"extra":null,"who":null,"things":null}')
    assert finding is None
    assert (record.name, record.isOn, record.who, record.things) == (None, None, None, None)


@pytest.mark.parametrize(
    "text",
    ["", "  \n", '{"name":"a"', '{"name":"a"}{"name":"b"}', '{"name":"a"} x', '{"name":"a",}', "{'name':'a'}", '{"extra":{"a":NaN}}',
     '{"extra":[01]}', '{"name":"\t"}', '\ufeff{"name":"a"}', '{"extra":["\\q"]}', "{", "\\", "tru"],
)  # fmt: skip
def test_text_that_is_not_one_json_text(text: str) -> None:
    assert rule_of(text) == "unparseable_json"
    assert read(text)[0] is None


@pytest.mark.parametrize("text", ["null", "[1]", '"x"', "12", "true", " [ ] "])
def test_json_that_is_not_an_object(text: str) -> None:
    assert rule_of(text) == "not_an_object"


def test_the_reason_of_a_lone_value_names_its_kind() -> None:
    assert [read(text)[1].reason for text in ("-1", "null")] == [
        "The record is a number, not an object.",
        "The record is null, not an object.",
    ]


@pytest.mark.parametrize(
    ("escapes", "rule"),
    [
        (r"\ud83d\ude00", None),
        (r"\\ud800", None),
        (r"\ud800", "lone_surrogate"),
        (r"\uD800 ", "lone_surrogate"),
        (r"\ud800\u0041", "lone_surrogate"),
        (r"\udc00 and so on", "lone_surrogate"),
        (r"\ud800x\udc00", "lone_surrogate"),
        (r"\ud83d\ude00\uDE00", "lone_surrogate"),
        (r"\\\ud800", "lone_surrogate"),
    ],
)
@pytest.mark.parametrize("place", ['{"name":"%s"}', '{"extra":{"a":["%s"]}}', '{"newer":"%s"}', '{"%s":1}'])
def test_half_a_surrogate_pair_is_no_character(place: str, escapes: str, rule: str | None) -> None:
    finding = read(place % escapes)[1]
    assert (finding.rule if finding else None) == rule


@pytest.mark.parametrize("open_close", ["[]", ('{"a":', "}")])
def test_a_thousand_levels_can_be_read_and_no_more(open_close: Any) -> None:
    start, end = open_close
    middle = "[]" if start == "[" else "{}"
    levels = {depth: '{"extra":' + start * (depth - 2) + middle + end * (depth - 2) + "}" for depth in (900, 985, 1_000, 1_001, 1_200)}
    assert {depth: rule_of(text) for depth, text in levels.items()} == {
        900: None,
        985: None,
        1_000: None,
        1_001: "too_deep",
        1_200: "too_deep",
    }
    assert bytes(read(levels[1_000])[0].extra).decode() == levels[1_000][9:-1]
    assert read(levels[1_200])[1].reason == "The record is nested 1,200 levels deep; 1,000 can be read."


def test_brackets_in_text_are_no_levels() -> None:
    assert read('{"name":"' + "[" * 2_000 + '"}')[1] is None


def test_a_string_of_twenty_million_characters_can_be_read_and_no_more() -> None:
    assert read('{"name":"' + "a" * 20_000_000 + '"}')[1] is None
    assert read('{"extra":["' + "é" * 19_000_000 + '"]}')[1] is None  # bytes are not characters
    assert read('{"extra":["' + "a" * 20_000_001 + '"]}')[1].rule == "string_too_long"
    assert read('{"name":"' + "a" * 20_000_001 + '"}')[1].rule == "string_too_long"
    assert rule_of('{"name":"' + "\\u0041" * 20_000_000 + '"}') is None  # nor are escapes


def test_text_that_is_not_utf8() -> None:
    assert rule_of(b'{"name":"\xff"}') == "invalid_utf8"
    assert read(b'{"name":"\xff"}')[0] is None


names = st.sampled_from(["name", "isOn", "extra", "who", "things", "arn", "session", "mfa", "ARN", "part", "more", "newer", "a b", "é"])
leaves = st.sampled_from(
    ["null", "true", "false", "0", "-1.50", "1e400", '""', '"text"', '"é"', '"\\u0041\\n"', '"\\ud83d\\ude00"', '"\\/"']
)
spaces = st.sampled_from(["", "", "", " ", "\n\t"])


@st.composite
def json_texts(draw: st.DrawFn, depth: int = 3) -> str:
    """Valid JSON text with repeated keys, odd spacing and escapes, near the shape."""
    kind = draw(st.sampled_from(["leaf", "object", "object", "array"])) if depth else "leaf"
    if kind == "leaf":
        return draw(leaves)
    space = draw(spaces)
    inner = json_texts(depth=depth - 1)
    if kind == "array":
        return f"[{space}" + f"{space},".join(draw(st.lists(inner, max_size=3))) + f"{space}]"
    return draw(objects(inner, space))


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[str], space: str) -> str:
    keys = draw(st.lists(names, max_size=5))
    members = [f"{json.dumps(key, ensure_ascii=draw(st.booleans()))}{space}:{space}{draw(inner)}" for key in keys]
    return "{" + space + f"{space},{space}".join(members) + space + "}"


@st.composite
def near_shape(draw: st.DrawFn, shape: Any = SHAPE) -> str:
    """A record that mostly has its shape."""
    if shape == "text":
        return draw(st.sampled_from(['"t"', '"\\u00e9"', '"\\""', "null", '""'] * 3 + ["1", "{}"]))
    if shape == "flag":
        return draw(st.sampled_from(["true", "false", "null"] * 3 + ['"true"']))
    if shape == "json":
        return draw(st.sampled_from(["{}", "null", "[]", '{"a":1.10}', '{"a":1, "a":[ {} ]}', '["\\u00e9"]'] * 2 + ['"{}"', "3"]))
    if isinstance(shape, list):
        return "[" + ",".join(draw(st.lists(near_shape(shape[0]) | st.just("null"), max_size=3))) + "]"
    keys = draw(st.lists(st.sampled_from(list(shape)), max_size=4, unique=draw(st.booleans())))
    members = [f'"{key}":{draw(near_shape(shape[key]))}' for key in keys]
    if draw(st.booleans()) and draw(st.booleans()):
        members.insert(draw(st.integers(0, len(members))), f'"newer":{draw(leaves)}')
    return "{" + draw(spaces).join([",".join(members), ""]) + "}"


@settings(max_examples=300, deadline=None)
@given(st.one_of(near_shape(), json_texts()))
def test_the_fast_path_says_what_the_exact_way_says(text: str) -> None:
    raw = text.encode()
    record, finding = read(raw)
    exact_record, exact_finding = (found[0] for found in READER.read_exactly([raw]))
    if exact_finding and "an object or an array belongs" in (exact_finding.reason or ""):
        return  # the fast path leaves the kind of free-form parts to the columns
    assert finding == exact_finding
    assert _plain(record) == _plain(exact_record)


@settings(max_examples=300, deadline=None)
@given(st.one_of(near_shape(), json_texts()))
def test_an_independent_reader_finds_the_same(text: str) -> None:
    pairs = json.loads(text, object_pairs_hook=_Pairs, parse_float=str, parse_int=str)
    expected = list(_faults(pairs, SHAPE, "$")) if isinstance(pairs, _Pairs) else ["not_an_object"]
    _, (finding,) = READER.read_exactly([text.encode()])
    if any(isinstance(found, str) for found in expected):
        assert finding.rule in expected
    else:
        assert json.loads(finding.rescued if finding else "{}", parse_float=str, parse_int=str, object_pairs_hook=_Pairs) == expected


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode) | near_shape().map(lambda text: text.encode()[:-3]))
def test_no_bytes_raise(raw: bytes) -> None:
    (record,), (finding,) = READER.read([raw])
    assert (record is None) == (finding is not None and finding.rule is not None)


class _Pairs(list[Any]):
    """The members of a JSON object, in order and with repetitions."""


def _faults(value: _Pairs, shape: dict[str, Any], path: str) -> Iterator[Any]:
    """Names of broken rules, and (path, value) of unknown fields, by plain Python."""
    keys = [key for key, _ in value]
    if len(set(keys)) < len(keys):
        yield "duplicate_key"
    for key, item in value:
        place = f"{path}.{key}" if key.isascii() and key.isidentifier() else f"{path}['{key}']"
        wanted = shape.get(key)
        if wanted is None:
            yield (place, item)
        elif item is not None:
            yield from _faults_of_item(item, wanted, place)


def _faults_of_item(item: Any, wanted: Any, place: str) -> Iterator[Any]:
    is_array = isinstance(item, list) and not isinstance(item, _Pairs)
    if wanted == "json":
        fits = is_array or isinstance(item, _Pairs)
    elif wanted == "text":
        fits = isinstance(item, str) and not _was_number(item)
    elif wanted == "flag":
        fits = isinstance(item, bool)
    elif isinstance(wanted, list):
        fits = is_array
    else:
        fits = isinstance(item, _Pairs)
    if not fits:
        yield "wrong_type"
    elif isinstance(wanted, dict):
        yield from _faults(item, wanted, place)
    elif isinstance(wanted, list):
        for index, each in enumerate(item):
            if each is not None:
                yield from _faults_of_item(each, wanted[0], f"{place}[{index}]")


def _was_number(item: str) -> bool:
    return item in {"0", "-1.50", "1e400", "1", "3"}  # the generators make no strings of digits


def _plain(record: Record | None) -> bytes:
    return msgspec.json.encode(record)
