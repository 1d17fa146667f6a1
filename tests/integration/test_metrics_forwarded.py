"""Progress where others read it: a real Kafka broker's topic and the page and file of Prometheus; and none of it stops a batch."""

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spark_jobs.io.metrics_topic import client_settings
from spark_jobs.spec.settings import load_settings
from tests.builders.kafka_broker import KafkaBroker
from tests.builders.stack import Stack


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    running = KafkaBroker(tmp_path_factory.mktemp("broker"))
    yield running
    running.stop()


def test_each_event_is_a_message_and_a_figure(tmp_path, spark, broker):
    broker.create("streaming-metrics")
    figures = tmp_path / "assay.prom"
    stack = Stack(tmp_path, spark, batch_files=3, gates=False, progress=True, kafka_servers=broker.address, metrics_file=figures)
    stack.land_sample(lambda name: name.split("_")[3] <= "20230710T1205Z")
    stack.discover()
    stack.run("bronze", run_id="seen")
    rows = {row["batch_id"]: row for row in stack.rows("_ops.progress")}
    found = [(key, json.loads(value)) for key, value in broker.messages("streaming-metrics", at_least=5)]
    assert [message["event"] for _, message in found] == ["started", "progress", "progress", "progress", "terminated"]
    assert {key for key, _ in found} == {message["table"] for _, message in found} == {"bronze.cloudtrail_records"}
    assert all((message["run_id"], message["pipeline"]) == ("seen", "cloudtrail") for _, message in found)
    for _, message in found[1:4]:
        row = rows[message["batch_id"]]
        assert message["phases"] == json.loads(row["phases"])
        assert {name: message[name] for name in ("input_rows", "lag_bytes", "duration_ms")} == {
            name: row[name] for name in ("input_rows", "lag_bytes", "duration_ms")
        }
        assert message["at"] == row["at"].isoformat()
    assert found[-1][1]["error"] is None
    samples = [one for family in text_string_to_metric_families(figures.read_text()) for one in family.samples]
    assert {one.value for one in samples if one.name == "assay_rows_total"} == {sum(row["input_rows"] for row in rows.values())}


def test_places_that_do_not_answer_fail_no_batch_and_are_said_once_each(tmp_path, spark, broker, capsys):
    (tmp_path / "a file").write_text("")
    broken = {"kafka_servers": "127.0.0.1:9", "metrics_file": tmp_path / "a file" / "assay.prom"}  # nobody listens; no folder
    stack = Stack(tmp_path, spark, batch_files=3, gates=False, progress=True, **broken)
    landed = stack.land_sample(lambda name: name.split("_")[3] <= "20230710T1205Z")
    stack.discover()
    assert stack.run("bronze") is None
    assert sum(row["files_ok"] for row in stack.rows("_ops.books")) == len(landed)
    assert len(stack.rows("_ops.progress")) == 3
    said = capsys.readouterr().err
    assert said.count("Figures for Prometheus cannot be written") == 1
    assert said.count("Metrics do not reach Kafka at 127.0.0.1:9") == 1
    assert "5 messages did not reach topic streaming-metrics" in said
    # A broker without the topic: delivery fails, which the client tells later than a broker that is away.
    stack = Stack(tmp_path / "b", spark, gates=False, progress=True, kafka_servers=broker.address, kafka_topic="nobody-made-it")
    stack.land_sample(lambda name: name.split("_")[3] <= "20230710T1205Z")
    stack.discover()
    assert stack.run("bronze") is None
    assert "3 messages did not reach topic nobody-made-it" in capsys.readouterr().err


def test_a_password_reaches_the_client_and_nothing_that_is_printed():
    settings = load_settings(
        kafka_servers="b:9093", kafka_protocol="SASL_SSL", kafka_user="us", kafka_password="open sesame", kafka_ca="/etc/ca.pem"
    )
    client = client_settings(settings)
    wanted = {"sasl.username": "us", "sasl.password": "open sesame", "security.protocol": "SASL_SSL", "ssl.ca.location": "/etc/ca.pem"}
    assert {name: client[name] for name in wanted} == wanted
    assert "sesame" not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
