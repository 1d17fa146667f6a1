"""A real Kafka broker (KRaft, one node) on 127.0.0.1, from jars that are fetched once below the state folder."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from infra.setup.jars import ROOT, fetch_jars
from infra.setup.java import ensure_java
from tests.builders.stack import PROJECT

LIST = ROOT / "infra" / "jars" / "broker.xml"
PATIENCE_S = 120

PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class KafkaBroker:
    """Running from its making until `stop`."""

    def __init__(self, folder: Path) -> None:
        state = PROJECT / ".assay"
        java = ensure_java(state)
        jars = state / "broker"
        jars.mkdir(exist_ok=True)
        with (jars / ".lock").open("w") as lock:  # two test processes may want it at once
            fcntl.flock(lock, fcntl.LOCK_EX)
            fetch_jars(LIST, "broker", jars, state, java)
        port, controller = _free_ports()
        self.address = f"127.0.0.1:{port}"
        settings = folder / "server.properties"
        settings.write_text(PROPERTIES.format(port=port, controller=controller, folder=folder))
        run = [str(java.binary), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
        cluster = "bm9ib2R5IGlzIGhlcmUgIQ"  # any 16 bytes in base64
        formatted = [*run, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)]
        subprocess.run(formatted, check=True, capture_output=True)
        with (folder / "broker.log").open("w") as log:
            self._process = subprocess.Popen([*run, "kafka.Kafka", str(settings)], stdout=log, stderr=log, cwd=folder)
        self._admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert self._process.poll() is None, (folder / "broker.log").read_text()[-2000:]
            try:
                self._admin.list_topics(timeout=5)
                return
            except KafkaException:
                assert time.monotonic() < deadline, "the broker did not come up"

    def create(self, topic: str) -> None:
        for made in self._admin.create_topics([NewTopic(topic, 1, 1)]).values():
            made.result(PATIENCE_S)

    def messages(self, topic: str, at_least: int) -> list[tuple[str, bytes]]:
        """Key and value of each message, once there are that many."""
        consumer = Consumer(
            {"bootstrap.servers": self.address, "group.id": f"test-{os.getpid()}-{time.monotonic_ns()}", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([topic])
        found: list[tuple[str, bytes]] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < at_least:
            assert time.monotonic() < deadline, f"{len(found)} of {at_least} messages came"
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                found.append((message.key().decode(), message.value()))
        consumer.close()
        return found

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]
