"""The three consequences of a gate through the real DAG: colours, tables, what a decision does, what the next run does.

Real operators, real spark-submit, in one Airflow process (`airflow dags test`), in the shape `all` with one submit for the three layers.
"""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.cli.airflow_home import airflow_environment, airflow_home, prepare_airflow
from tests.builders.events import event
from tests.builders.landing_files import document, log_path, packed
from tests.builders.stack import PROJECT, Stack

GATES = ("gate_bronze", "gate_silver", "gate_gold")


class Airflow:
    """An Airflow of its own on a stack of its own."""

    def __init__(self, folder):
        home = folder / "home"
        home.mkdir()
        for part in ("jars", "java"):
            (home / part).symlink_to(PROJECT / ".assay" / part)
        self.stack = Stack(folder, shape="all", home=home)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "AIRFLOW"))}
        self.env = airflow_environment(self.stack.settings, {**clean, "ASSAY_SHAPE": "all"})
        prepare_airflow(self.env)
        self.home = home

    def run(self):
        """Run the DAG once in a process of its own: {task: state}. Leaves the state of the run and the sentences of what failed."""
        command = [str(Path(sys.executable).parent / "airflow"), "dags", "test", "cloudtrail_hourly"]
        with (self.home / "dag.log").open("w") as log:
            subprocess.run(command, env=self.env, cwd=PROJECT, stdout=log, stderr=log)
        with sqlite3.connect(airflow_home(self.stack.settings) / "airflow.db") as database:
            newest = "select run_id, state from dag_run where dag_id = 'cloudtrail_hourly' order by id desc limit 1"
            self.run_id, self.run_state = database.execute(newest).fetchone()
            rows = database.execute("select task_id, state from task_instance where run_id = ?", [self.run_id]).fetchall()
        return dict(rows)

    def asked(self):
        """The runs that were made for a person to decide in: {run: what it is about}."""
        with sqlite3.connect(airflow_home(self.stack.settings) / "airflow.db") as database:
            rows = database.execute("select run_id, conf, state from dag_run where dag_id = 'cloudtrail_held'").fetchall()
        return {run_id: (json.loads(conf)["table"], json.loads(conf)["batch"], state) for run_id, conf, state in rows}

    def failures(self):
        """{task or None for the run: sentence} of this run's failures, from the callbacks' record."""
        file = self.home / "failures.jsonl"
        told = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return {line["task_id"]: line["sentence"] for line in told if line["run_id"] == self.run_id}

    def asset_events(self):
        """The tables for which this run has left an asset event."""
        question = "select asset.name from asset_event join asset on asset.id = asset_event.asset_id where source_run_id = ?"
        with sqlite3.connect(airflow_home(self.stack.settings) / "airflow.db") as database:
            return {name for (name,) in database.execute(question, [self.run_id]).fetchall()}

    def assay(self, *words):
        return subprocess.run(
            [str(Path(sys.executable).parent / "assay"), *words],
            env=self.stack.environment(),
            cwd=PROJECT,
            text=True,
            capture_output=True,
            check=True,
        )

    def report(self):
        folders = [path for path in (self.home / "reports" / "cloudtrail").iterdir() if path.is_dir()]
        newest = max(folders, key=lambda path: (path / "report.json").stat().st_mtime)
        return json.loads((newest / "report.json").read_text()), (newest / "index.html").read_text()


@pytest.fixture
def airflow(tmp_path):
    return Airflow(tmp_path)


def land(stack, number, events):
    records = [json.dumps(record, separators=(",", ":")).encode() for record in events]
    stack.land(log_path(number), packed(document(records)))


def test_warn_hold_and_stop_through_the_real_dag(airflow):
    stack = airflow.stack

    # warn: an event category that CloudTrail does not document is published, and said; no asset event for silver.
    land(stack, 1, [event(n) for n in range(1, 6)] + [event(6, eventCategory="Brand new")])
    states = airflow.run()
    assert airflow.run_state == "success"
    assert {states[gate] for gate in GATES} == {"success"}
    assert len(stack.rows("silver.cloudtrail_events")) == 6
    assert airflow.asset_events() == {"bronze.cloudtrail_records", *(str(table) for table in stack.pipeline.gold_tables_of("hourly"))}

    # hold: an account id that is none. Its batch waits, the run is green, and silver's gate leaves no asset event.
    land(stack, 2, [event(10), event(11, recipientAccountId="twelve digits")])
    states = airflow.run()
    assert airflow.run_state == "success"
    assert states["gate_silver"] == "success"
    assert "silver.cloudtrail_events" not in airflow.asset_events()
    assert len(stack.rows("silver.cloudtrail_events")) == 6
    held = {row["_batch_id"] for row in stack.rows("silver.cloudtrail_events_held")}
    assert len(held) == 1
    question = (f"held__silver.cloudtrail_events__{next(iter(held))}", ("silver.cloudtrail_events", next(iter(held)), "queued"))
    assert airflow.asked() == dict([question]), "a run in which a person decides was made, and this run did not wait for it"

    # release, and stop: most records of a batch break the contract. The gate is red, later layers wait, the report is written all the same.
    airflow.assay("held", "release", "silver.cloudtrail_events", held.pop(), "--note", "seen")
    land(stack, 3, [event(n, eventID=None) for n in range(20, 45)] + [event(50)])
    states = airflow.run()
    assert airflow.run_state == "failed"
    assert states["gate_silver"] == "failed"
    assert states["gate_gold"] == "upstream_failed"
    assert (states["ask_decisions"], states["report"]) == ("success", "success")
    stopped = next(row["batch_id"] for row in stack.rows("_ops.verdicts") if row["outcome"] == "stop")
    asked = dict([question, (f"held__silver.cloudtrail_events__{stopped}", ("silver.cloudtrail_events", stopped, "queued"))])
    assert airflow.asked() == asked, "after a red gate too, and none a second time"
    assert set(airflow.failures()) == {"gate_silver", None}
    assert "half" in airflow.failures()["gate_silver"]
    assert len(stack.rows("silver.cloudtrail_events")) == 8
    assert stack.rows("silver.cloudtrail_events_held") == []
    facts, page = airflow.report()
    assert "stop" in json.dumps(facts)
    assert "half" in page

    # reject: the stopped batch goes to quarantine, and the next run is green and up to date.
    airflow.assay("held", "reject", "silver.cloudtrail_events", stopped, "--note", "test data")
    states = airflow.run()
    assert airflow.run_state == "success"
    assert len(stack.rows("silver.cloudtrail_events")) == 8
    rules = [row["rule"] for row in stack.rows("silver.cloudtrail_events_quarantine")]
    assert (rules.count("missing_event_id"), rules.count("rejected")) == (25, 1)
    assert sum(row["event_count"] for row in stack.rows("gold.cloudtrail_activity_1h")) == 8
    assert all(row["is_balanced"] for row in stack.rows("_ops.books"))

    # nothing new: everything but the report is skipped, and no Spark is started.
    states = airflow.run()
    assert airflow.run_state == "success"
    assert {state for task, state in states.items() if task not in ("discover", "ask_decisions", "report")} == {"skipped"}
    assert airflow.asked() == asked


def test_both_shapes_give_the_same_tables(airflow, tmp_path, spark):
    alone = Stack(tmp_path / "each", spark)
    for stack in (alone, airflow.stack):
        stack.land_sample(lambda name: "T1205Z" in name)
    alone.discover()
    for layer in ("bronze", "silver", "gold"):
        alone.run(layer)
    airflow.run()
    assert airflow.run_state == "success"
    for table in alone.pipeline.all_tables:
        if table.layer != "bronze":  # bronze rows have engine columns and the text alone
            assert airflow.stack.content(str(table)) == alone.content(str(table))
