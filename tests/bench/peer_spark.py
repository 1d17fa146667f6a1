"""Peer: the same work as one plain Spark batch would do it. No Delta, no bronze copy, no lineage, no quarantine, no gates.

Submitted as `peer_spark.py <landing> <output> [<landing> <output> …]`: each pair in the same session; prints one JSON list of costs.
"""

from __future__ import annotations

import json
import os
import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_jobs.pipelines.cloudtrail.schema import RECORD_SCHEMA
from tests.bench.measure import tree_cpu_s


def events_of(session: SparkSession, landing: str) -> DataFrame:
    """inflate → parse: the full CloudTrail schema, as silver has it."""
    documents = session.read.option("recursiveFileLookup", "true").text(landing, wholetext=True)
    document = T.StructType().add("Records", T.ArrayType(RECORD_SCHEMA))
    parsed = documents.select(F.explode(F.from_json("value", document)["Records"]).alias("e"))
    event_time = F.try_to_timestamp("eventTime")
    return parsed.select("e.*").withColumn("event_time", event_time).withColumn("event_date", F.to_date(event_time))


def run(session: SparkSession, landing: str, output: str) -> int:
    """→ dedup → Parquet → hourly counts."""
    events_of(session, landing).dropDuplicates(["eventID"]).write.mode("overwrite").partitionBy("event_date").parquet(f"{output}/events")
    events = session.read.parquet(f"{output}/events")
    hourly = events.groupBy(F.window("event_time", "1 hour"), "recipientAccountId", "awsRegion", "eventSource", "eventName").agg(
        F.count("*").alias("event_count"),
        F.count("errorCode").alias("error_count"),
        F.countDistinct("userIdentity.arn").alias("principals"),
    )
    hourly.write.mode("overwrite").parquet(f"{output}/hourly")
    return session.read.parquet(f"{output}/hourly").agg(F.sum("event_count")).first()[0]


def main(pairs: list[str]) -> None:
    options = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.ui.showConsoleProgress": "false",
    }
    session = SparkSession.builder.appName("peer").config(map=options).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    costs = []
    for landing, output in zip(pairs[::2], pairs[1::2], strict=True):
        cpu_s, started = tree_cpu_s(os.getppid()), time.monotonic()
        events = run(session, landing, output)
        costs.append({"events": events, "cpu_s": tree_cpu_s(os.getppid()) - cpu_s, "wall_s": time.monotonic() - started})
    session.stop()
    print(json.dumps(costs))


if __name__ == "__main__":
    main(sys.argv[1:])
