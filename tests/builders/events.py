"""CloudTrail events and bronze rows for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

INGESTED_AT = datetime(2024, 5, 2, 10, 0, tzinfo=UTC)

BRONZE_COLUMNS = (
    "_rid string, _file_id string, _source_file string, _record_index int, _file_sha256 string, _listed_at timestamp, "
    "_ingested_at timestamp, _ingest_date date, _batch_id string, raw string"
)


def event(number: int = 0, **changes: Any) -> dict[str, Any]:
    """A valid CloudTrail event; `number` makes its eventID. A change to `...` takes the field away."""
    record: dict[str, Any] = {
        "eventVersion": "1.11",
        "userIdentity": {
            "type": "AssumedRole",
            "principalId": "AROAEXAMPLE:session",
            "arn": "arn:aws:sts::111122223333:assumed-role/Reader/session",
            "accountId": "111122223333",
            "accessKeyId": "ASIAEXAMPLE",
            "sessionContext": {
                "sessionIssuer": {
                    "type": "Role",
                    "principalId": "AROAEXAMPLE",
                    "arn": "arn:aws:iam::111122223333:role/Reader",
                    "accountId": "111122223333",
                    "userName": "Reader",
                },
                "attributes": {"creationDate": "2024-05-01T11:58:00Z", "mfaAuthenticated": "false"},
            },
        },
        "eventTime": "2024-05-01T12:30:15Z",
        "eventSource": "s3.amazonaws.com",
        "eventName": "GetObject",
        "awsRegion": "eu-west-1",
        "sourceIPAddress": "198.51.100.7",
        "userAgent": "aws-cli/2.15",
        "requestParameters": {"bucketName": "example", "key": "a/b"},
        "responseElements": None,
        "requestID": "R-EXAMPLE",
        "eventID": str(uuid5(NAMESPACE_URL, f"event/{number}")),
        "readOnly": True,
        "resources": [{"accountId": "111122223333", "type": "AWS::S3::Object", "ARN": "arn:aws:s3:::example/a/b"}],
        "eventType": "AwsApiCall",
        "managementEvent": False,
        "recipientAccountId": "111122223333",
        "eventCategory": "Data",
        "tlsDetails": {
            "tlsVersion": "TLSv1.3",
            "cipherSuite": "TLS_AES_128_GCM_SHA256",
            "clientProvidedHostHeader": "s3.eu-west-1.amazonaws.com",
        },
    }
    record.update(changes)
    return {name: value for name, value in record.items() if value is not ...}


def event_text(number: int = 0, **changes: Any) -> str:
    """The same as compact JSON text, as CloudTrail writes it."""
    return json.dumps(event(number, **changes), separators=(",", ":"), ensure_ascii=False)


def bronze_row(raw: str | None, index: int = 0, **changes: Any) -> tuple[Any, ...]:
    """A row of `bronze.cloudtrail_records` in the order of BRONZE_COLUMNS."""
    row = {
        "_rid": f"{'0' * 32}:{index}",
        "_file_id": "0" * 32,
        "_source_file": "/landing/one.json.gz",
        "_record_index": index,
        "_file_sha256": "f" * 64,
        "_listed_at": INGESTED_AT,
        "_ingested_at": INGESTED_AT,
        "_ingest_date": date(2024, 5, 2),
        "_batch_id": "v1-00000000",
        "raw": raw,
    }
    row.update(changes)
    return tuple(row.values())


def bronze_rows(raws: Iterable[str | None]) -> list[tuple[Any, ...]]:
    return [bronze_row(raw, index) for index, raw in enumerate(raws)]
