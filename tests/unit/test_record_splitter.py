"""Splitting never raises on any bytes, agrees with the parsers on what is JSON, and loses no record to its siblings' damage."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_jobs.io.json_extents import value_end
from spark_jobs.io.landed_file import FileFault
from spark_jobs.io.record_pieces import Split, is_utf8
from spark_jobs.io.record_splitter import split_document, split_plain
from spark_jobs.io.record_walk import RecordWalk
from tests.builders.landing_files import document, record_text, sample_files

scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=12))
values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)), max_leaves=12
)
records = st.lists(values, max_size=6)
seeds = st.integers(0, 2**32)
some = settings(deadline=None, max_examples=100)
many = settings(deadline=None, max_examples=400)


def split(content: bytes) -> Split:
    return split_document(bytearray(content), records_key="Records")


def walk(content: bytes, max_records: int = 1_000) -> Split:
    """The slow path alone."""
    return RecordWalk(bytearray(content), "Records", max_records).run(0)


def texts(found: Split) -> list[bytes]:
    return [bytes(memoryview(piece)) for index, piece in enumerate(found.pieces) if index not in found.flaws]


def flaws(found: Split) -> list[tuple[str, bytes]]:
    return [(rule, bytes(memoryview(found.pieces[index]))) for index, (rule, _) in sorted(found.flaws.items())]


def written(value: Any, chance: random.Random) -> str:
    """JSON text of a value with white space wherever it may be, and characters escaped or not."""

    def space() -> str:
        return "".join(chance.choices(" \t\r\n", k=chance.choice((0, 0, 0, 1, 3))))

    if isinstance(value, list):
        return "[" + space() + ",".join(space() + written(inner, chance) + space() for inner in value) + "]"
    if isinstance(value, dict):
        members = (
            space() + written(key, chance) + space() + ":" + space() + written(inner, chance) + space() for key, inner in value.items()
        )
        return "{" + space() + ",".join(members) + "}"
    if isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value):
        return json.dumps(value, ensure_ascii=chance.random() < 0.5)
    return json.dumps(value)


def spaced_document(elements: list[str], chance: random.Random) -> tuple[bytes, list[bytes]]:
    def pad() -> str:
        return "".join(chance.choices(" \t\r\n", k=chance.choice((0, 0, 1, 2))))

    body = ",".join(pad() + element + pad() for element in elements)
    content = pad() + "{" + pad() + '"Records"' + pad() + ":" + pad() + "[" + body + pad() + "]" + pad() + "}" + pad()
    return content.encode(), [element.encode() for element in elements]


@some
@given(records, seeds)
def test_valid_documents_give_the_exact_texts_on_both_paths(elements: list[Any], seed: int) -> None:
    chance = random.Random(seed)
    content, expected = spaced_document([written(element, chance) for element in elements], chance)
    fast = split_plain(bytearray(content), 0, "Records", 1_000)
    slow = walk(content)
    assert fast is not None
    assert texts(fast) == texts(slow) == texts(split(content)) == expected
    assert [json.loads(text) for text in texts(slow)] == json.loads(content)["Records"]
    assert slow.flaws == fast.flaws == {} and slow.notes == fast.notes == []


@some
@given(st.lists(st.tuples(st.sampled_from(["Records", "records", "a", "\u00e9", "Re\\u0063ords"]), values), max_size=5), seeds)
def test_all_arrays_of_all_records_keys_are_found_and_no_others(members: list[tuple[str, Any]], seed: int) -> None:
    chance = random.Random(seed)
    parts = [(json.loads(f'"{key}"'), written(value, chance), value) for key, value in members]
    content = "{" + ",".join(f'"{key}" : {text}' for (key, _), (_, text, _) in zip(members, parts, strict=True)) + "}"
    arrays = [value for key, _, value in parts if key == "Records" and isinstance(value, list)]
    if arrays:
        found = split(content.encode())
        assert [json.loads(text) for text in texts(found)] == [element for array in arrays for element in array]
        assert not found.flaws
        others = {key for key, _, _ in parts if key != "Records"}
        assert all(any(key in note for note in found.notes) for key in others)
        assert any(note.startswith(f"{len(arrays)} arrays") for note in found.notes) == (len(arrays) > 1)
    else:
        with pytest.raises(FileFault) as fault:
            split(content.encode())
        assert fault.value.rule == ("records_not_array" if any(key == "Records" for key, _, _ in parts) else "no_records_key")


def damage(content: bytes, chance: random.Random) -> tuple[bytes, int]:
    """The content with one to three things done to it, and the first byte that is not as it was."""
    first = len(content)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(12, max(len(content), 13))
        kind = chance.randrange(5)
        if kind == 0:
            content = content[:at] + bytes((chance.randrange(256),)) + content[at + 1 :]
        elif kind == 1:
            content = content[:at] + content[at + chance.randint(1, 9) :]
        elif kind == 2:
            content = content[:at] + bytes(chance.choices(b'"\\{}[],:0x \xff', k=chance.randint(1, 4))) + content[at:]
        elif kind == 3:
            content = content[:at]
        else:
            content = content[:at] + content[chance.randrange(12, len(content) + 1) :]
        first = min(first, at)
        if len(content) < 13:
            break
    return content, first


@many
@given(st.lists(st.dictionaries(st.sampled_from("abcd"), values, min_size=1, max_size=3), min_size=1, max_size=5), seeds)
def test_damage_never_raises_and_costs_no_record_before_it(elements: list[Any], seed: int) -> None:
    chance = random.Random(seed)
    whole = [written(element, chance).encode() for element in elements]
    content, first = damage(document(whole), chance)
    try:
        found = split(content)
    except FileFault as fault:
        assert fault.rule == "not_json" and first <= len(b'{"Records":[')
        return
    assert_accounted_for(content, found)
    intact = [text for index, text in enumerate(whole) if len(document(whole[: index + 1])) - 2 <= first]
    assert texts(found)[: len(intact)] == intact
    try:
        expected = msgspec.json.decode(content)["Records"]
    except (msgspec.MsgspecError, UnicodeError):
        return
    assert found.notes or [json.loads(text) for text in texts(found)] == expected


def assert_accounted_for(content: bytes, found: Split) -> None:
    """Pieces are disjoint, in order, JSON where they are records, and every byte in between is punctuation, white space or a key."""
    at = 0
    for index, piece in enumerate(found.pieces):
        text = bytes(memoryview(piece))
        assert text
        begin = content.index(text, at)
        between = content[at:begin]
        assert at == 0 or not between.strip(b" \t\r\n,]}{") or b":" in between
        at = begin + len(text)
        if index not in found.flaws:
            assert is_utf8(text)
            json.loads(text)


@some
@given(st.binary(max_size=60))
@example(b"\xef\xbb\xbf")
@example(b'{"Records":[1e')
@example(b'{"Records":[{"a":1}],{"a":1}')
def test_any_bytes_are_split_or_refused(content: bytes) -> None:
    for candidate in (content, b'{"Records":[' + content, b'{"Records":[{"a":1},' + content + b"]}"):
        try:
            split(candidate)
        except FileFault as fault:
            assert fault.rule in {"empty_file", "not_json", "no_records_key", "records_not_array"}


@many
@given(seeds)
def test_one_damaged_record_does_not_cost_the_ones_behind_it(seed: int) -> None:
    """Whole records, one of them cut or overwritten in its middle: at least all others come out.

    The one exception (5 of 40,000 seeds): a record that lost its closing brackets can be valid JSON with its siblings as parts of
    itself and the document's last brackets as its own. Then they are in its text, and the document is noted to break off.
    """
    chance = random.Random(seed)
    whole = [record_text(number) for number in range(8)]
    victim = chance.randrange(8)
    text = whole[victim]
    at, size = chance.randrange(20, len(text) - 20), chance.randint(1, 15)
    hurt = (
        text[:at] + bytes(chance.choices(b'"{}[],:x\x00', k=size)) + text[at + size :]
        if chance.random() < 0.5
        else text[:at] + text[at + size :]
    )
    content = document([*whole[:victim], hurt, *whole[victim + 1 :]])
    found = split(content)
    others = [other for index, other in enumerate(whole) if index != victim]
    alone = [one for one in texts(found) if one in others]
    inside = [one for one in others if any(one != text and one in text for text in texts(found))]
    assert sorted(alone + inside) == sorted(others)
    assert not inside or "breaks off" in found.notes[0] or "cannot be divided" in found.notes[0]
    assert_accounted_for(content, found)


@pytest.mark.parametrize(
    ("content", "expected", "quarantined"),
    [
        pytest.param(b'{"Records":[{"a":1}],{"a":2}]}', [b'{"a":1}', b'{"a":2}'], [], id="a bracket too many"),
        pytest.param(b'{"Records":[{a":1},{"a":2},{"a":[{"b":1},{"b":1}]},{"a":3}]}',
                     [b'{"a":2}', b'{"a":[{"b":1},{"b":1}]}', b'{"a":3}'], [("not_json_record", b'{a":1}')],
                     id="the first key of the first record"),
        pytest.param(b'{"Records":[{"a":"},{"a":2},{"a":[{"b":1},{"a":"]}"}]}]}',
                     [b'{"a":2}', b'{"a":[{"b":1},{"a":"]}"}]}'], [("not_json_record", b'{"a":"}')], id="a string without an end"),
        pytest.param(b'{"Records":[{"a":1}}, {"a":2}, 5}]}', [b'{"a":1}', b'{"a":2}'],
                     [("not_json_record", b"}"), ("not_json_record", b"5}")], id="a brace too many"),
        pytest.param(b'{"Records":[{"a":1}]}"x,{"a":2}],"b":2}', [b'{"a":1}', b'{"a":2}'], [("not_json_record", b'"x')],
                     id="an end too early"),
        pytest.param(b'{"Records":[{"a":1}]} {"a":2},{"a":3}]}', [b'{"a":1}', b'{"a":2}', b'{"a":3}'], [],
                     id="an end too early, then a record"),
        pytest.param(b'{"Records":[{"a":1},x],"Records":[{"a":2},{"a":3}]}', [b'{"a":1}', b'{"a":2}', b'{"a":3}'],
                     [("not_json_record", b"x")],
                     id="garbage at the end of the first of two arrays"),
        pytest.param(b'{"Records":[{"a":1},{"a"}],"k":5},{"a":3}]}', [b'{"a":1}', b'{"a":3}'], [("not_json_record", b'{"a"}],"k":5}')],
                     id="a bracket too many within a damaged record"),
        pytest.param(b'{"Records":[{"a":"\\ud800","b":' + b"1" * 6_000 + b"}]}", [b'{"a":"\\ud800","b":' + b"1" * 6_000 + b"}"], [],
                     id="a long number beside a lone surrogate"),
        pytest.param(b'{"Records":[' + b"[" * 5_000 + b"}" * 5_000 + b",1]}", [b"1"], [("not_json_record", b"[" * 5_000 + b"}" * 5_000)],
                     id="deep brackets of which none fits"),
        pytest.param(b'{"Records":[,1,,2,]}', [b"1", b"2"], [], id="commas too many"),
        pytest.param(b'{"Records":[NaN,Infinity,-1,01,1.,"\x01"]}', [b"-1"],
                     [("not_json_record", bad) for bad in (b"NaN", b"Infinity", b"01", b"1.", b'"\x01"')],
                     id="not JSON though some parsers take it"),
        pytest.param(b'{"Records":[1' + b"2" * 6_000 + b"]}", [b"1" + b"2" * 6_000], [], id="a long number"),
        pytest.param(b'{"Records":[12', [], [("unreadable_remainder", b"12")], id="a number that may go on"),
        pytest.param(b'{"Records":["\xed\xa0\x80","\xc0\xaf","\xe2\x82"]}', [],
                     [("invalid_utf8", bad) for bad in (b'"\xed\xa0\x80"', b'"\xc0\xaf"', b'"\xe2\x82"')],
                     id="surrogate, overlong and cut UTF-8"),
        pytest.param(b'{"Records":[1]}{"Records":', [b"1"], [("unreadable_remainder", b'"Records":')],
                     id="a second document that breaks off"),
    ],
)  # fmt: skip
def test_damage(content: bytes, expected: list[bytes], quarantined: list[tuple[str, bytes]]) -> None:
    found = split(content)
    assert (texts(found), flaws(found)) == (expected, quarantined)


def test_a_repeated_key_is_never_lost() -> None:
    """msgspec alone keeps the last of two equal keys."""
    content = b'{"Records":[{"a":1}],"Records":[{"a":2}]}'
    assert len(msgspec.json.decode(content, type=dict[str, msgspec.Raw])) == 1
    assert split_plain(bytearray(content), 0, "Records", 10) is None
    assert texts(split(content)) == [b'{"a":1}', b'{"a":2}']


def test_too_many_records_are_refused_on_both_paths() -> None:
    for content in (b'{"Records":[1,2,3,4]}', b'{"Records":[1,2,3,4],"a":1}'):
        with pytest.raises(FileFault) as fault:
            split_document(content, records_key="Records", max_records=3)
        assert fault.value.rule == "too_many_records"
        assert len(split_document(content, records_key="Records", max_records=4).pieces) == 4


def test_every_damaged_record_of_a_file_is_its_own_piece() -> None:
    hurt = [record_text(number).replace(b'"eventTime":"', b'"eventTime":', 1) for number in range(2_000)]
    assert [text for _, text in flaws(split(document(hurt)))][:-1] == hurt[:-1]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b'{"Records":[' + b'{"a":[1,' * 50_000, id="records begin inside of records and none ends"),
        pytest.param(b'{"Records":[{"a":1}' + b",x" * 200_000 + b"]}", id="no record behind garbage"),
        pytest.param(b'{"Records":[' + b"x," * 200_000 + b"1]}", id="no record at all"),
        pytest.param(b'{"Records":[{"a":1}]' + b',"b":[[,{"a":1}]' * 20_000, id="damage between arrays"),
        pytest.param(b'{"Records":[' + b'{"a":[1,' * 10_000 + b"x" + b"]}" * 10_000 + b"]}", id="damage within records within records"),
    ],
)
def test_damage_made_to_waste_time_is_given_up(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these takes minutes when every place is tried again to the end of the document."""
    monkeypatch.setattr("spark_jobs.io.record_walk.MOST_WASTED", 1_000_000)
    found = split(content)
    assert found.flaws
    assert sum(memoryview(piece).nbytes for piece in found.pieces) >= 0.3 * len(content)


@some
@given(values, seeds)
def test_extents_end_where_the_value_ends(value: Any, seed: int) -> None:
    chance = random.Random(seed)
    text = written(value, chance).encode()
    assert value_end(b"[" + text + b" ,1]", 1) == len(text) + 1


def test_the_slow_path_reads_the_sample_like_the_fast_one() -> None:
    import gzip

    for file in sample_files():
        content = gzip.decompress(file.read_bytes())
        fast = split_plain(bytearray(content), 0, "Records", 10_000)
        assert fast is not None and texts(fast) == texts(walk(content, 10_000))
