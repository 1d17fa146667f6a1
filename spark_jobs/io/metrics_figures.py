"""The figures of a pipeline's queries in Prometheus's form: names with their base unit, labels pipeline and table."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

disable_created_metrics()  # a series more per counter, which nobody asks for

LABELS = ("pipeline", "table")

# Name, what it says, and how it follows from a row of `_ops.progress`.
GAUGES: tuple[tuple[str, str, Callable[[Mapping[str, Any]], float | None]], ...] = (
    ("assay_input_rows_per_second", "Rows of the last batch by the time since the batch before it.", lambda row: row["input_rows_per_s"]),
    ("assay_processed_rows_per_second", "Rows of the last batch by its duration.", lambda row: row["processed_rows_per_s"]),
    ("assay_batch_duration_seconds", "How long the last batch took.", lambda row: row["duration_ms"] / 1000),
    ("assay_batch_input_rows", "Rows that the last batch read.", lambda row: row["input_rows"]),
    ("assay_batch_bytes", "Bytes that the last batch read.", lambda row: row["batch_bytes"]),
    ("assay_batch_limit_bytes", "The bound that was in force for the last batch.", lambda row: row["batch_limit"]),
    ("assay_lag_files", "Files of the source that the last batch left unread.", lambda row: row["lag_files"]),
    ("assay_lag_bytes", "Bytes of the source that the last batch left unread.", lambda row: row["lag_bytes"]),
    ("assay_lag_seconds", "Age of the oldest thing that the last batch left unread.", lambda row: _times(row["lag_minutes"], 60)),
    ("assay_state_rows", "Rows that the query keeps between batches.", lambda row: row["state_rows"]),
    ("assay_state_bytes", "Memory of what the query keeps between batches.", lambda row: row["state_bytes"]),
    ("assay_source_version", "Version of the source that the query has come to.", lambda row: row["source_version"]),
    ("assay_target_version", "Version of the table after the last batch.", lambda row: row["target_version"]),
    ("assay_last_batch_timestamp_seconds", "When the last batch ended.", lambda row: row["at"].timestamp()),
    ("assay_newest_event_timestamp_seconds", "Newest event that the table shows.", lambda row: _seconds(row["newest_event_at"])),
)  # fmt: skip
COUNTERS = {
    "assay_batches_total": ("Batches that ended.", LABELS),
    "assay_rows_total": ("Rows that batches read.", LABELS),
    "assay_query_starts_total": ("Starts of the query, also after it has stood aside for another writer.", LABELS),
    "assay_query_failures_total": ("Ends of the query by an error.", LABELS),
    "assay_gate_outcomes_total": ("Batches by what their gate said.", (*LABELS, "outcome")),
}
OTHERS = {
    "assay_batch_phase_seconds": ("How long a phase of the last batch took.", (*LABELS, "phase")),
    "assay_lease_epoch": ("Epoch of the lease under which the table was last written.", LABELS),
}
FRESHNESS = "assay_freshness_seconds"


class Figures:
    """A registry of its own, fed with events; `clock` gives epoch seconds."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        named = {name: (said, LABELS) for name, said, _ in GAUGES} | OTHERS
        self._gauges = {name: Gauge(name, said, labels, registry=self.registry) for name, (said, labels) in named.items()}
        self._counters = {name: Counter(name, said, labels, registry=self.registry) for name, (said, labels) in COUNTERS.items()}
        self._newest: dict[tuple[str, ...], float] = {}
        self.registry.register(_Freshness(self._newest, clock))

    def take(self, kind: str, event: Mapping[str, Any]) -> None:
        """`kind`: started, progress, booked (a row of `_ops.books`), terminated (with `error`)."""
        labels = (event["pipeline"], event["table"])
        if kind == "started":
            self._counters["assay_query_starts_total"].labels(*labels).inc()
            self._counters["assay_query_failures_total"].labels(*labels).inc(0)  # there from the start, so that a rate sees the first
        elif kind == "terminated" and event.get("error"):
            self._counters["assay_query_failures_total"].labels(*labels).inc()
            if str(event["error"]).startswith("GateStopped"):
                self._counters["assay_gate_outcomes_total"].labels(*labels, "stop").inc()
        elif kind == "booked":
            self._counters["assay_gate_outcomes_total"].labels(*labels, event["outcome"]).inc()
            if event.get("epoch") is not None:
                self._gauges["assay_lease_epoch"].labels(*labels).set(event["epoch"])
        elif kind == "progress":
            self._take_progress(labels, event)

    def _take_progress(self, labels: tuple[str, str], row: Mapping[str, Any]) -> None:
        whole = dict.fromkeys(("input_rows_per_s", "batch_bytes", "batch_limit", "lag_files", "lag_bytes", "lag_minutes", "state_rows",
                               "state_bytes", "processed_rows_per_s", "newest_event_at"))  # fmt: skip
        row = {**whole, **row}
        for name, _, value_of in GAUGES:
            if (value := value_of(row)) is not None:
                self._gauges[name].labels(*labels).set(value)
        for phase, ms in json.loads(row.get("phases") or "{}").items():
            self._gauges["assay_batch_phase_seconds"].labels(*labels, phase).set(ms / 1000)
        if row["newest_event_at"] is not None:
            self._newest[labels] = row["newest_event_at"].timestamp()
        self._counters["assay_batches_total"].labels(*labels).inc()
        self._counters["assay_rows_total"].labels(*labels).inc(row["input_rows"] or 0)

    def load(self, text: str) -> None:
        """Go on from figures that were written before: counters count on, gauges stand until they are set. Raises ValueError."""
        for family in text_string_to_metric_families(text):
            for name, labels, value in ((one.name, one.labels, one.value) for one in family.samples):
                if name in self._counters and set(labels) == set(COUNTERS[name][1]):
                    self._counters[name].labels(**labels).inc(value)
                elif name in self._gauges:
                    self._gauges[name].labels(**labels).set(value)
                    if name == "assay_newest_event_timestamp_seconds":
                        self._newest[labels["pipeline"], labels["table"]] = value


class _Freshness:
    """Of each table the age of its newest event, as of the moment that it is asked for."""

    def __init__(self, newest: dict[tuple[str, ...], float], clock: Callable[[], float]) -> None:
        self._newest, self._clock = newest, clock

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(FRESHNESS, "Age of the newest event that the table shows.", labels=LABELS)
        for labels, newest in list(self._newest.items()):
            family.add_metric(labels, max(0.0, self._clock() - newest))
        yield family


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _seconds(at: Any) -> float | None:
    return None if at is None else float(at.timestamp())
