"""Figures in Prometheus's form: what each event makes of them, and that short jobs go on from each other's file."""

import json
import re
import socket
import threading
import urllib.request
from datetime import UTC, datetime

import psutil
from prometheus_client.parser import text_string_to_metric_families

from infra.setup.jars import ROOT
from spark_jobs.io.metrics_figures import COUNTERS, FRESHNESS, GAUGES, OTHERS
from spark_jobs.io.metrics_page import MetricsFile, MetricsPage
from spark_jobs.jobs.metrics import forwarders
from spark_jobs.jobs.run import Run
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.settings import load_settings

AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SILVER = {
    "pipeline": "cloudtrail", "table": "silver.cloudtrail_events", "run_id": "r", "batch_id": "v1-00000003", "input_rows": 500,
    "input_rows_per_s": 50.0, "processed_rows_per_s": 250.0, "duration_ms": 2000, "phases": json.dumps({"addBatch": 1500}),
    "batch_bytes": 1000, "batch_limit": 64_000_000, "lag_files": 2, "lag_bytes": 4096, "lag_minutes": 1.5, "state_rows": 0,
    "state_bytes": 0, "source_version": 7, "target_version": 5, "newest_event_at": AT, "at": AT,
}  # fmt: skip
NAME = {"pipeline": "cloudtrail", "table": "silver.cloudtrail_events"}
EVENTS = [
    ("started", {**NAME, "error": None}),
    ("booked", {**NAME, "outcome": "warn", "epoch": 9}),
    ("progress", SILVER),
    ("terminated", {**NAME, "error": "GateStopped: no"}),
]
EXPECTED = {
    "assay_batches_total": 1, "assay_rows_total": 500, "assay_query_starts_total": 1, "assay_query_failures_total": 1,
    "assay_input_rows_per_second": 50, "assay_processed_rows_per_second": 250, "assay_batch_duration_seconds": 2,
    "assay_batch_phase_seconds{addBatch}": 1.5, "assay_batch_bytes": 1000, "assay_batch_limit_bytes": 64e6, "assay_lag_files": 2,
    "assay_lag_bytes": 4096, "assay_lag_seconds": 90, "assay_source_version": 7, "assay_target_version": 5, "assay_lease_epoch": 9,
    "assay_last_batch_timestamp_seconds": AT.timestamp(), "assay_newest_event_timestamp_seconds": AT.timestamp(),
    "assay_gate_outcomes_total{warn}": 1, "assay_gate_outcomes_total{stop}": 1,
}  # fmt: skip


def test_the_page_of_a_long_run_shows_every_figure_on_the_loopback_interface_alone():
    said: list[str] = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        page = MetricsPage(port, said.append)
        for kind, event in EVENTS:
            page.send(kind, event)
        while not said:  # the run before this one still has the port: said, and tried again
            threading.Event().wait(0.05)
    found = _scraped(port)
    listening = {one.laddr.ip for one in psutil.Process().net_connections("tcp") if one.laddr.port == port and one.status == "LISTEN"}
    assert listening == {"127.0.0.1"}
    page.close()
    assert {name: found[name] for name in EXPECTED} == EXPECTED
    assert found["assay_freshness_seconds"] >= 0
    assert len(said) == 1 and "tried again" in said[0]
    named = {name.partition("{")[0] for name in found}
    assert named == {*(name for name, _, _ in GAUGES), *COUNTERS, *OTHERS, "assay_freshness_seconds"}
    with socket.socket() as closed:
        assert closed.connect_ex(("127.0.0.1", port)) != 0


def test_short_jobs_go_on_from_the_file_and_leave_each_others_series(tmp_path):
    place = tmp_path / "node" / "assay.prom"
    for _ in range(2):
        job = MetricsFile(place)
        for kind, event in EVENTS:
            job.send(kind, event)
        job.close()
    other = MetricsFile(place)
    other.send("progress", {**SILVER, "table": "gold.cloudtrail", "input_rows": 7})
    other.close()
    samples = {(one.name, one.labels["table"]): one.value for one in _samples(place.read_text()) if len(one.labels) == 2}
    assert samples["assay_rows_total", "silver.cloudtrail_events"] == 1000
    assert samples["assay_rows_total", "gold.cloudtrail"] == 7
    assert samples["assay_lag_files", "silver.cloudtrail_events"] == 2
    place.write_text("no figures at all {")
    other.send("progress", SILVER)
    assert {one.labels["table"] for one in _samples(place.read_text())} == {"silver.cloudtrail_events"}
    assert [path.name for path in place.parent.glob("*.prom")] == ["assay.prom"]


def _page(port):
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
                return _samples(page.read().decode())
        except OSError:
            threading.Event().wait(0.1)
    raise AssertionError("the page did not come up")


def _scraped(port):
    found = {}
    for one in _page(port):
        more = [value for name, value in one.labels.items() if name not in ("pipeline", "table")]
        found[one.name + (f"{{{more[0]}}}" if more else "")] = one.value
    return found


def _samples(text):
    return [one for family in text_string_to_metric_families(text) for one in family.samples]


def test_runs_of_one_process_share_a_page_until_the_last_is_closed():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = load_settings(metrics_port=port, trigger="every 1 second")
    runs = [Run(settings, load_pipeline("cloudtrail"), "r") for _ in range(3)]  # of the three layers
    pages = [forwarders(run)[0] for run in runs]
    pages[0].send("progress", SILVER)
    pages[1].send("progress", {**SILVER, "table": "gold.cloudtrail"})
    pages[0].close()
    pages[1].close()
    seen = {one.labels["table"] for one in _page(port) if one.name == "assay_rows_total"}
    assert seen == {"silver.cloudtrail_events", "gold.cloudtrail"}
    pages[2].close()
    with socket.socket() as closed:
        assert closed.connect_ex(("127.0.0.1", port)) != 0
    assert forwarders(Run(load_settings(metrics_port=port), load_pipeline("cloudtrail"), "r")) == []  # a short run serves no page


def test_the_page_on_prometheus_names_every_figure_and_no_other():
    page = (ROOT / "infra" / "prometheus" / "README.md").read_text()
    named = set(re.findall(r"^\| `(assay_\w+)`", page, re.MULTILINE))
    known = {*(name for name, _, _ in GAUGES), *COUNTERS, *OTHERS, FRESHNESS}
    assert named == known
    assert set(re.findall(r"assay_\w+", page)) == known, "the questions ask for figures that there are"
