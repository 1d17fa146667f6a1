"""Silver: what each record becomes, and what it breaks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import types as T

from spark_jobs.pipelines.cloudtrail.schema import EVENT_SCHEMA, RECORD_SCHEMA, SILVER_SCHEMA
from spark_jobs.pipelines.cloudtrail.silver import parse_events
from spark_jobs.transforms.read_json import without_metadata
from tests.builders.events import event, event_text
from tests.spark.frames import bronze_frame, parse

NESTED = 'x":' + "[" * 1_200 + "]" * 1_200
EXACT = '{"a": 1.10,"b":1e400,"c":-0,"d":1E+2,"e":12345678901234567890123,"f":"\\u003c\\/é","g":{ },"a":2}'


def text_with(members: str) -> str:
    """A valid event's text with more members at its end."""
    return event_text()[:-1] + "," + members + "}"


# A raw record, and the rule it breaks.
BROKEN: dict[str, tuple[str | None, str]] = {
    "empty": ("", "unparseable_json"),
    "null cell": (None, "unparseable_json"),
    "cut": (event_text()[:-1], "unparseable_json"),
    "second object on the line": (event_text() + event_text(1), "unparseable_json"),
    "trailing garbage": (event_text() + " x", "unparseable_json"),
    "byte order mark": ("\ufeff" + event_text(), "unparseable_json"),
    "not a number": (text_with('"newer":NaN'), "unparseable_json"),
    "a list": ("[" + event_text() + "]", "not_an_object"),
    "null": ("null", "not_an_object"),
    "a string": (json.dumps(event_text()), "not_an_object"),
    "key twice": (text_with('"eventName":"Other"'), "duplicate_key"),
    "key twice, deeper": (event_text(tlsDetails=...)[:-1] + ',"tlsDetails":{"tlsVersion":"a","tlsVersion":"b"}}', "duplicate_key"),
    "wrong type": (event_text(readOnly="true"), "wrong_type"),
    "wrong type, deeper": (event_text(resources=[{"ARN": "a"}, {"ARN": 5}]), "wrong_type"),
    "free-form part is text": (event_text(requestParameters="{}"), "wrong_type"),
    "1,200 levels": (text_with('"' + NESTED), "too_deep"),
    "lone surrogate": (text_with('"newer":"\\ud800"'), "lone_surrogate"),
    "20 MB string": (event_text(userAgent="a" * 20_000_001), "string_too_long"),
    "no eventID": (event_text(eventID=...), "missing_event_id"),
    "null eventID": (event_text(eventID=None), "missing_event_id"),
    "blank eventID": (event_text(eventID="  "), "missing_event_id"),
    "no eventTime": (event_text(eventTime=...), "missing_event_time"),
    "null eventTime": (event_text(eventTime=None), "missing_event_time"),
    "no eventName": (event_text(eventName=...), "missing_event_name"),
    "no eventSource": (event_text(eventSource=None), "missing_event_source"),
    "no awsRegion": (event_text(awsRegion=""), "missing_aws_region"),
    "no account": (event_text(recipientAccountId=..., userIdentity={"type": "AWSService", "invokedBy": "x"}), "missing_account"),
}


@pytest.fixture(scope="module")
def broken(spark: SparkSession) -> dict[str, Row]:
    raws = [raw for raw, _ in BROKEN.values()]
    return dict(zip([*BROKEN, "good"], parse(spark, [*raws, event_text(7)]), strict=True))


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_record_names_its_rule_and_keeps_its_text(broken: dict[str, Row], case: str) -> None:
    raw, rule = BROKEN[case]
    row = broken[case]
    assert (row["_rule"], row["raw"]) == (rule, raw)
    assert row["_reason"].endswith(".")
    assert len(row["_reason"]) < 200  # a sentence; it never carries the record


def test_a_broken_record_takes_nothing_from_the_good_one_beside_it(broken: dict[str, Row], spark: SparkSession) -> None:
    (alone,) = parse(spark, [event_text(7)])
    apart = {"_rid", "_record_index"}
    assert {k: v for k, v in broken["good"].asDict(True).items() if k not in apart} == {
        k: v for k, v in alone.asDict(True).items() if k not in apart
    }
    assert (alone["_rule"], alone["_reason"], alone["raw"], alone["_rescued"]) == (None, None, None, None)


def test_each_row_goes_in_and_comes_out_once(spark: SparkSession) -> None:
    rows = parse(spark, [raw for raw, _ in BROKEN.values()])
    assert [row["_record_index"] for row in rows] == list(range(len(BROKEN)))


def test_the_columns_are_the_silver_schema(spark: SparkSession) -> None:
    frame = parse_events(bronze_frame(spark, []))
    assert [(f.name, f.dataType) for f in frame.schema][:-4] == [(f.name, _bare(f.dataType)) for f in SILVER_SCHEMA]
    assert [f.metadata["comment"] for f in frame.schema.fields[:-4]] == [f.metadata["comment"] for f in SILVER_SCHEMA]
    assert frame.columns[-4:] == ["raw", "_rule", "_reason", "_due_at"]


def test_free_form_parts_keep_their_exact_text(spark: SparkSession) -> None:
    fields = ("requestParameters", "responseElements", "additionalEventData", "serviceEventDetails", "edgeDeviceDetails")
    base = event(requestParameters=..., responseElements=...)
    raw = json.dumps(base, separators=(",", ":"))[:-1] + "".join(f',"{field}":{EXACT}' for field in fields) + "}"
    listed = event_text(requestParameters=...)[:-1] + ',"requestParameters":[1.0, {}],"eventContext":{"tagContext":{"a":1.50}}}'
    row, other = parse(spark, [raw, listed])
    assert row["_rule"] is None
    columns = ("request_parameters", "response_elements", "additional_event_data", "service_event_details", "edge_device_details")
    assert [row[column] for column in columns] == [EXACT] * 5
    assert (other["request_parameters"], other["event_context"]["tag_context"]) == ("[1.0, {}]", '{"a":1.50}')


def test_unknown_fields_are_rescued_at_each_depth_and_in_each_resource(spark: SparkSession) -> None:
    identity = event()["userIdentity"]
    identity["sessionContext"]["attributes"]["deeper"] = [1, {"a": None}]
    identity["second"] = True
    resources = [{"ARN": "a"}, None, {"ARN": "b", "colour": "blue", "odd key": 1}]
    raw = event_text(userIdentity=identity, resources=resources)[:-1] + ',"first":1.10}'
    row, plain = parse(spark, [raw, event_text(1)])
    assert row["_rule"] is None
    assert row["_rescued"] == (
        '{"$.userIdentity.sessionContext.attributes.deeper":[1,{"a":null}],"$.userIdentity.second":true,'
        '"$.resources[2].colour":"blue","$.resources[2][\'odd key\']":1,"$.first":1.10}'
    )
    assert [resource and resource["arn"] for resource in row["resources"]] == ["a", None, "b"]
    assert row["user_identity"]["session_context"]["attributes"]["mfa_authenticated"] == "false"
    assert plain["_rescued"] is None


def test_every_field_of_the_record_comes_out_under_its_snake_case_name(spark: SparkSession) -> None:
    full = _full(RECORD_SCHEMA)
    full |= {"eventTime": "2024-05-01T12:30:15Z"}
    (row,) = parse(spark, [json.dumps(full, separators=(",", ":"))])
    assert (row["_rule"], row["_rescued"]) == (None, None)
    expected = _renamed(full, RECORD_SCHEMA, EVENT_SCHEMA)
    del expected["event_time"]
    assert {name: row.asDict(True)[name] for name in expected} == expected
    assert None not in _leaves(row["user_identity"].asDict(True))


@pytest.mark.parametrize(
    ("changes", "account", "principal"),
    [
        ({}, "111122223333", "arn:aws:sts::111122223333:assumed-role/Reader/session"),
        ({"recipientAccountId": ...}, "111122223333", "arn:aws:sts::111122223333:assumed-role/Reader/session"),
        ({"userIdentity": {"type": "AWSService", "invokedBy": "s3.amazonaws.com"}}, "111122223333", "service:s3.amazonaws.com"),
        ({"userIdentity": {"type": "AWSAccount", "accountId": "9"}, "recipientAccountId": ""}, "9", "account:9"),
        ({"userIdentity": {"type": "Unknown", "arn": ""}}, "111122223333", "unknown"),
        ({"userIdentity": None}, "111122223333", "unknown"),
    ],
)
def test_every_event_has_an_account_and_a_principal(spark: SparkSession, changes: dict[str, Any], account: str, principal: str) -> None:
    (row,) = parse(spark, [event_text(**changes)])
    assert (row["_rule"], row["account_id"], row["principal_arn"]) == (None, account, principal)


def test_the_content_hash_tells_a_changed_event_from_a_repeated_one(spark: SparkSession) -> None:
    first, again, changed = parse(spark, [event_text(), event_text(), event_text(userAgent="other")])
    assert first["_content_hash"] == again["_content_hash"] != changed["_content_hash"]


def test_spaces_and_order_of_a_record_change_nothing_but_the_hash(spark: SparkSession) -> None:
    fields = event()
    pretty = json.dumps(dict(reversed(fields.items())), indent=2, ensure_ascii=True)
    compact, spread = (row.asDict(True) for row in parse(spark, [event_text(requestParameters={}), pretty]))
    apart = {"_rid", "_record_index", "_content_hash", "request_parameters"}
    assert {k: v for k, v in compact.items() if k not in apart} == {k: v for k, v in spread.items() if k not in apart}


def _bare(kind: Any) -> Any:
    return without_metadata(kind)


def _full(schema: Any, path: str = "$") -> dict[str, Any]:
    """A record with every field of the schema, each value telling its place."""
    full: dict[str, Any] = {}
    for field in schema.fields:
        place = f"{path}.{field.name}"
        if isinstance(field.dataType, T.StructType):
            full[field.name] = _full(field.dataType, place)
        elif isinstance(field.dataType, T.ArrayType):
            full[field.name] = [_full(field.dataType.elementType, place)]
        elif isinstance(field.dataType, T.BooleanType):
            full[field.name] = True
        else:
            full[field.name] = {"at": place} if field.metadata.get("json") else place
    return full


def _renamed(value: Any, schema: Any, named: Any) -> Any:
    """The same with the other schema's names, free-form parts as text."""
    out = {}
    for field, other in zip(schema.fields, named.fields, strict=True):
        item = value[field.name]
        if isinstance(item, list):
            out[other.name] = [_renamed(each, field.dataType.elementType, other.dataType.elementType) for each in item]
        elif field.metadata.get("json"):
            out[other.name] = json.dumps(item, separators=(",", ":"))
        else:
            out[other.name] = _renamed(item, field.dataType, other.dataType) if isinstance(item, dict) else item
    return out


def _leaves(value: dict[str, Any]) -> list[Any]:
    return [leaf for item in value.values() for leaf in (_leaves(item) if isinstance(item, dict) else [item])]
