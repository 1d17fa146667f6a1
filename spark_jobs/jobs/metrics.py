"""Where the progress of batches goes besides `_ops.progress`: a Kafka topic and Prometheus, as the settings say."""

from __future__ import annotations

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


def forwarders(run: Run) -> list[Forwarder]:
    """Those that the settings ask for. A page only for a run that lasts: between the seconds of short ones nobody would find it."""
    settings, found = run.settings, list[Forwarder]()
    if settings.kafka_servers:
        from spark_jobs.io.metrics_topic import MetricsTopic

        found.append(MetricsTopic(settings, run.say))
    if settings.metrics_port and run.mode == "continuous":
        from spark_jobs.io.metrics_page import MetricsPage

        found.append(MetricsPage(settings.metrics_port, run.say))
    if settings.metrics_file is not None and run.mode != "continuous":
        from spark_jobs.io.metrics_page import MetricsFile

        found.append(MetricsFile(settings.metrics_file))
    return found
