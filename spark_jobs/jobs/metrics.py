"""Where the progress of batches goes besides `_ops.progress`: a Kafka topic and Prometheus, as the settings say."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from spark_jobs.jobs.run import Run


class Forwarder(Protocol):
    """Takes events on the progress writer's thread; must not block it for long."""

    complaint: str  # what is said, once, when a call fails

    def send(self, kind: str, event: dict[str, Any]) -> None:
        """`kind`: started, progress, terminated, booked. `event`: at least pipeline, table, run_id."""

    def close(self) -> None:
        """The process ends: what can be delivered within seconds is."""


@dataclass
class _Shared:
    """One place for all runs of this process: a continuous driver has a run for each layer, and a port can be taken once."""

    key: tuple[object, ...]
    forwarder: Forwarder
    users: int = 0

    @property
    def complaint(self) -> str:
        return self.forwarder.complaint

    def send(self, kind: str, event: dict[str, Any]) -> None:
        self.forwarder.send(kind, event)

    def close(self) -> None:
        with _lock:
            self.users -= 1
            if self.users == 0:
                del _open[self.key]
                self.forwarder.close()


_lock = threading.Lock()
_open: dict[tuple[object, ...], _Shared] = {}


def forwarders(run: Run) -> list[Forwarder]:
    """Those that the settings ask for. A page only for a run that lasts: between the seconds of short ones nobody would find it."""
    settings, found = run.settings, list[Forwarder]()
    if settings.kafka_servers:
        from spark_jobs.io.metrics_topic import MetricsTopic

        key = ("topic", settings.kafka_servers, settings.kafka_topic)
        found.append(_shared(key, lambda: MetricsTopic(settings, run.say)))
    if settings.metrics_port and run.mode == "continuous":
        from spark_jobs.io.metrics_page import MetricsPage

        found.append(_shared(("page", settings.metrics_port), lambda: MetricsPage(settings.metrics_port, run.say)))
    if settings.metrics_file is not None and run.mode != "continuous":
        from spark_jobs.io.metrics_page import MetricsFile

        place = settings.metrics_file
        found.append(_shared(("file", place), lambda: MetricsFile(place)))
    return found


def _shared(key: tuple[object, ...], make: Callable[[], Forwarder]) -> Forwarder:
    with _lock:
        if key not in _open:
            _open[key] = _Shared(key, make())
        _open[key].users += 1
        return _open[key]
