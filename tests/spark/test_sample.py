"""The shipped sample of real events: nothing of it is quarantined, and its totals are right; as a batch and as a stream."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from spark_jobs.pipelines.cloudtrail.silver import parse_events
from tests.builders.events import event_text
from tests.builders.sample import sample_events, sample_texts
from tests.spark.frames import bronze_frame, parse, rows_of


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> list[Row]:
    return parse(spark, sample_texts())


def test_every_record_keeps_the_contract_and_the_totals_are_known(rows: list[Row]) -> None:
    assert Counter(row["_rule"] for row in rows) == {None: 2_092}
    assert Counter(row["event_time"].hour for row in rows) == {11: 740, 12: 1_352}
    assert sum(row["error_code"] is not None for row in rows) == 200
    assert {row["event_date"].isoformat() for row in rows} == {"2023-07-10"}
    assert len({row["event_id"] for row in rows}) == 2_092


def test_no_field_of_a_real_record_is_unknown(rows: list[Row]) -> None:
    assert {row["_rescued"] for row in rows} == {None}


def test_every_value_of_every_record_is_there(rows: list[Row]) -> None:
    for record, row in zip(sample_events(), rows, strict=True):
        assert row["event_time"].strftime("%Y-%m-%dT%H:%M:%SZ") == record["eventTime"]
        assert (row["event_name"], row["source_ip_address"], row["error_message"]) == (
            record["eventName"],
            record["sourceIPAddress"],
            record.get("errorMessage"),
        )
        for column, name in (("request_parameters", "requestParameters"), ("response_elements", "responseElements")):
            assert json.loads(row[column] or "null") == record[name]
        assert [resource["arn"] for resource in row["resources"] or []] == [r["ARN"] for r in record.get("resources", [])]
        issuer = record["userIdentity"].get("sessionContext", {}).get("sessionIssuer", {})
        context = row["user_identity"]["session_context"]
        assert (context and context["session_issuer"] and context["session_issuer"]["arn"]) == (issuer.get("arn") if context else None)


def test_a_stream_of_small_batches_gives_the_rows_of_one_batch(spark: SparkSession, tmp_path: Path) -> None:
    raws = [*sample_texts()[:300], "", event_text(readOnly="no"), event_text(eventTime="2024-05-01T24:00:00Z")]
    landed = bronze_frame(spark, raws)
    source, sink = str(tmp_path / "source"), str(tmp_path / "sink")
    landed.repartition(3).write.format("delta").save(source)
    stream = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(source)
    query = (
        parse_events(stream)
        .writeStream.format("delta")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(sink)
    )
    query.awaitTermination()
    assert len(query.recentProgress) >= 3
    assert rows_of(spark.read.format("delta").load(sink)) == rows_of(parse_events(landed))
