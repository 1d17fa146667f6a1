"""Peer: the same work by chdb, a vectorised C++ engine in this process. No lineage, no quarantine, no gates, one machine only.

Run as `peer_chdb.py <landing> <output> [<landing> <output> …]`; prints one JSON list of costs.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import chdb

TEXTS = (
    "eventID", "eventVersion", "eventSource", "eventName", "awsRegion", "sourceIPAddress", "userAgent", "errorCode", "errorMessage",
    "requestID", "eventType", "recipientAccountId", "eventCategory", "vpcEndpointId", "sharedEventID",
)  # fmt: skip
FLAGS = ("readOnly", "managementEvent")
NESTED = ("userIdentity", "requestParameters", "responseElements", "additionalEventData", "resources", "tlsDetails")
IDENTITY = ("type", "principalId", "arn", "accountId", "accessKeyId", "userName", "invokedBy")

RECORD = ", ".join(
    [f"{name} Nullable(String)" for name in TEXTS]
    + [f"{name} Nullable(Bool)" for name in FLAGS]
    + [f"{name} String" for name in (*NESTED, "eventTime")]
)


def run(landing: str, output: str) -> int:
    """inflate → parse → dedup → Parquet → hourly counts."""
    Path(output).mkdir(parents=True, exist_ok=True)
    record = f"Tuple({RECORD})"
    identity = ", ".join(f"JSONExtractString(userIdentity, '{name}') AS identity_{name}" for name in IDENTITY)
    columns = ", ".join([f"r.{name} AS {name}" for name in (*TEXTS, *FLAGS, *NESTED)])
    chdb.query(
        f"""
        INSERT INTO FUNCTION file('{output}/events.parquet', 'Parquet')
        SELECT {columns}, parseDateTimeBestEffortOrNull(r.eventTime) AS event_time, {identity}
          FROM (SELECT arrayJoin(JSONExtract(json, 'Records', 'Array({record})')) AS r
                  FROM file('{landing}/**/*.json.gz', 'JSONAsString', 'json String'))
         LIMIT 1 BY eventID
        SETTINGS max_threads = {os.cpu_count() or 2}, output_format_parquet_compression_method = 'zstd', engine_file_truncate_on_insert = 1
        """
    )
    chdb.query(
        f"""
        INSERT INTO FUNCTION file('{output}/hourly.parquet', 'Parquet')
        SELECT toStartOfHour(event_time) AS hour, recipientAccountId, awsRegion, eventSource, eventName,
               count() AS event_count, count(errorCode) AS error_count, uniqExact(identity_arn) AS principals
          FROM file('{output}/events.parquet') GROUP BY ALL SETTINGS engine_file_truncate_on_insert = 1
        """
    )
    return int(str(chdb.query(f"SELECT sum(event_count) FROM file('{output}/hourly.parquet')", "CSV")).strip())


def main(pairs: list[str]) -> None:
    costs = []
    for landing, output in zip(pairs[::2], pairs[1::2], strict=True):
        cpu_s, started = time.process_time(), time.monotonic()  # of all threads; chdb starts no processes
        events = run(landing, output)
        costs.append({"events": events, "cpu_s": time.process_time() - cpu_s, "wall_s": time.monotonic() - started})
    print(json.dumps(costs))


if __name__ == "__main__":
    main(sys.argv[1:])
