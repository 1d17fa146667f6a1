"""Airflow, seen from outside: its database is read as a file, since importing Airflow alone would take longer than everything else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from spark_jobs.cli.airflow_home import airflow_home
from spark_jobs.spec.pipeline import pipeline_names
from spark_jobs.spec.settings import Settings

POOLS = ("spark", "stream")
SILENT_S = 120  # a scheduler says every five seconds that it is alive

Said = tuple[Literal["ok", "note", "wrong"], str, str]


def airflow_findings(settings: Settings) -> Iterator[Said]:
    """State, sentence, how to mend. Nothing but a note where Airflow was never started: Assay's jobs do without it."""
    home = airflow_home(settings)
    database, stamp = home / "airflow.db", home / "prepared"
    if not database.exists():
        yield "note", f"Airflow was not started yet: there is no {database}.", "make up"
        return
    try:
        installed = version("apache-airflow")
    except PackageNotFoundError:
        yield "wrong", "The Python package apache-airflow is not installed here.", "make setup"
        return
    if not stamp.exists() or stamp.read_text() != installed:
        made_by = stamp.read_text() if stamp.exists() else "an unknown version"
        yield "wrong", f"Airflow's database was made ready by {made_by}, and {installed} is installed.", "make up (it migrates)"
    with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, timeout=2)) as db:
        yield from _of_database(db, installed)


def _of_database(db: sqlite3.Connection, installed: str) -> Iterator[Said]:
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {"alembic_version", "slot_pool", "dag", "job"} <= tables:
        yield "wrong", "Airflow's database has not all of its tables.", "make up (it makes them)"
        return
    pools = {name for (name,) in db.execute("SELECT pool FROM slot_pool")}
    if missing := [name for name in POOLS if name not in pools]:
        yield "wrong", f"Airflow lacks the pool {', '.join(missing)}, so tasks would wait forever.", "make up (it makes them)"
    else:
        yield "ok", f"Airflow {installed}: its database can be read, the pools {' and '.join(POOLS)} are there."
    states = dict(db.execute("SELECT dag_id, is_paused FROM dag WHERE is_stale = 0").fetchall())
    for name in pipeline_names():
        hourly, continuous = states.get(f"{name}_hourly"), states.get(f"{name}_continuous")
        if hourly and (continuous is None or continuous):
            yield "note", f"{name}_hourly is paused and {name}_continuous does not run: nothing reads new files.", "unpause one on its page"
    yield from _heartbeats(db)


def _heartbeats(db: sqlite3.Connection) -> Iterator[Said]:
    newest = "SELECT max(latest_heartbeat) FROM job WHERE job_type = 'SchedulerJob' AND state = 'running'"
    (seen,) = db.execute(newest).fetchone()
    if seen is None:
        yield "note", "No scheduler is running.", "make up, where runs are to be scheduled"
        return
    at = datetime.fromisoformat(seen).replace(tzinfo=UTC)
    silent_s = (datetime.now(UTC) - at).total_seconds()
    if silent_s > SILENT_S:
        yield "wrong", f"The scheduler was last heard of at {at:%Y-%m-%d %H:%M:%S} UTC.", "start `make up` again"
    else:
        yield "ok", f"The scheduler is alive ({silent_s:.0f} s ago)."
