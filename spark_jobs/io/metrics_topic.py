"""Progress as messages of a Kafka topic: JSON, one per event, the query's name as key, so that a query's events stay in order."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from spark_jobs.spec.settings import Settings

MOST_WAITING = 10_000  # messages of 1 kB: a broker may be away for an hour of batches each second
LONGEST_WAIT_MS = 60_000  # a message that no broker has taken by then is dropped
LAST_WAIT_S = 3.0  # at the process's end

_JSON_COLUMNS = ("phases", "targets")  # text in the table, objects in a message


class MetricsTopic:
    """Never waits for a broker: messages wait in a bounded queue of the client's own thread. What is dropped is counted and said once."""

    complaint = "Metrics do not reach Kafka"

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        from confluent_kafka import Producer

        quiet = logging.getLogger("assay.kafka")  # the client's own lines would come every second while a broker is away
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        self._say, self._topic, self._servers = say, settings.kafka_topic, settings.kafka_servers
        self._dropped, self._reason, self._said = 0, "", False
        self._producer = Producer({**client_settings(settings), "error_cb": self._on_error}, logger=quiet)

    def send(self, kind: str, event: Mapping[str, Any]) -> None:
        if kind == "booked":
            return
        try:
            self._producer.produce(self._topic, key=str(event["table"]), value=message(kind, event), on_delivery=self._on_delivery)
        except BufferError:
            self._dropped += 1
        self._producer.poll(0)

    def close(self) -> None:
        self._dropped += self._producer.flush(LAST_WAIT_S)
        if self._dropped:
            reason = f" ({self._reason})" if self._reason else ""
            self._say(f"{self._dropped:,} messages did not reach topic {self._topic} of {self._servers}{reason}; _ops.progress has them.")

    def _on_error(self, error: Any) -> None:
        self._reason = error.str()
        if not self._said:
            self._said = True
            self._say(f"{self.complaint} at {self._servers}: {self._reason}. The batches go on; messages wait for a minute each.")

    def _on_delivery(self, error: Any, _: Any) -> None:
        if error is not None:
            self._dropped += 1
            self._on_error(error)


def client_settings(settings: Settings) -> dict[str, Any]:
    """The client's settings, from ours."""
    found: dict[str, Any] = {
        "bootstrap.servers": settings.kafka_servers,
        "client.id": "assay",
        "enable.idempotence": True,  # a message that is sent again is not there twice
        "linger.ms": 50,
        "queue.buffering.max.messages": MOST_WAITING,
        "message.timeout.ms": LONGEST_WAIT_MS,
        "security.protocol": settings.kafka_protocol,
    }
    if settings.kafka_protocol.startswith("SASL"):
        password = settings.kafka_password.get_secret_value() if settings.kafka_password else ""
        found |= {"sasl.mechanism": settings.kafka_mechanism, "sasl.username": settings.kafka_user, "sasl.password": password}
    if settings.kafka_ca is not None:
        found["ssl.ca.location"] = str(settings.kafka_ca)
    return found


def message(kind: str, event: Mapping[str, Any]) -> bytes:
    """An event as JSON: `event` (started, progress, terminated) and the columns of `_ops.progress`, times in ISO 8601 UTC."""
    columns = {name: json.loads(value) if name in _JSON_COLUMNS and value else value for name, value in event.items()}
    return json.dumps({"event": kind, **columns}, default=_text).encode()


def _text(value: object) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)
