"""`assay doctor` looks at the installation: this one is whole, and each thing that is broken is found and told how to mend."""

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from spark_jobs.cli import installation
from spark_jobs.cli.installation import examine
from spark_jobs.cli.main import app
from spark_jobs.io.ops import Ops
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import SWEEPS
from tests.builders.rights import AS_A_USER
from tests.builders.stack import PROJECT

LOW_PORT_FREE = {"ASSAY_PORT": "1"}  # nothing listens there


@pytest.fixture
def home(tmp_path):
    """A state folder with the real Java, jars and archive, and an Airflow database of its own."""
    made = tmp_path / "home"
    (made / "airflow").mkdir(parents=True)
    for part in ("java", "jars"):
        (made / part).symlink_to(PROJECT / ".assay" / part)
    (made / "landing").mkdir()
    return made


def _found(home, environment=LOW_PORT_FREE, **settings):
    """The parts that are not all right, by name."""
    parts = examine(load_settings(home=home, **settings), environment)
    return {part.part: (part.state, part.sentence, part.mend) for part in parts if part.state != "ok"}


def test_an_installation_that_is_whole(home):
    parts = examine(load_settings(home=home), LOW_PORT_FREE)
    assert [(part.part, part.state) for part in parts if part.state != "ok"] == [("airflow", "note")]
    said = " ".join(part.sentence for part in parts)
    assert "Java 17" in said or "Java 21" in said
    assert "jars are in" in said and "The class-data archive is mapped." in said and "there is no" in said


def test_each_part_that_is_broken_is_named_with_what_mends_it(home, monkeypatch):
    jars = shutil.copytree(home / "jars", home / "copied")
    (home / "jars").unlink()
    next(jars.glob("delta-storage*")).unlink()
    jars.rename(home / "jars")
    (home / "landing").rmdir()
    (home / "java").unlink()
    (home / "java").mkdir()
    for part in (PROJECT / ".assay" / "java").iterdir():
        (home / "java" / part.name).symlink_to(part)
    (home / "java" / "driver.jsa").unlink()
    (home / "java" / "driver.jsa").write_bytes(b"of another Java")
    Ops(load_settings(home=home)).append(SWEEPS, [{"pipeline": "x"}])
    (log,) = (home / "lake" / "_ops" / "sweeps" / "_delta_log").glob("*0.json")
    ahead = int((datetime.now(UTC) + timedelta(days=1)).timestamp() * 1000)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    next(line for line in lines if "commitInfo" in line)["commitInfo"]["timestamp"] = ahead
    log.write_text("\n".join(map(json.dumps, lines)))
    monkeypatch.setattr(installation, "FULL_BYTES", 10**18)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        found = _found(home, {"ASSAY_PORT": port, "ASSAY_LANDNG_FOLDER": "x"}, driver_memory="9000g")
    assert found["jars"] == ("wrong", f"{home}/jars lacks delta-storage-4.4.0.jar.", "make setup")
    assert found["archive"][0] == "note" and "does not fit" in found["archive"][1]
    assert found["memory"][0] == "wrong" and "ASSAY_DRIVER_MEMORY" in found["memory"][2]
    assert found["landing"][0] == "note" and "ASSAY_LANDING" in found["landing"][2]
    assert {found[name][0] for name in ("home", "lake", "reports")} == {"wrong"} and "free" in found["lake"][1]
    assert found["clock"][0] == "wrong" and "the clock is behind" in found["clock"][1]
    assert found["ports"][1].startswith(f"Port {port} (ASSAY_PORT) is in use")
    assert found["settings"][1] == "ASSAY_LANDNG_FOLDER is set and is no setting."


def test_without_a_java_that_spark_runs_on(home, tmp_path):
    (home / "java").unlink()
    state, sentence, mend = _found(home, {**LOW_PORT_FREE, "JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})["java"]
    assert (state, mend) == ("wrong", "make setup")
    assert f"JAVA_HOME ({tmp_path}) holds no Java" in sentence


def test_a_folder_below_the_lake_that_may_not_be_written_is_named(home):
    locked = home / "lake" / "silver"
    locked.mkdir(parents=True)
    locked.chmod(0o500)
    try:
        command = [*AS_A_USER, sys.executable, "-m", "spark_jobs.cli.main", "doctor", "--install-only", "--json"]
        env = {**os.environ, "ASSAY_HOME": str(home), **LOW_PORT_FREE}
        said = subprocess.run(command, env=env, cwd=PROJECT, capture_output=True, text=True)
        (lake,) = (row for row in json.loads(said.stdout)["installation"] if row["part"] == "lake")
        assert (said.returncode, lake["state"], lake["sentence"]) == (2, "wrong", f"This user may not write {locked}.")
    finally:
        locked.chmod(0o700)


def test_airflow_is_read_from_its_database_alone(home):
    database = home / "airflow" / "airflow.db"
    with sqlite3.connect(database) as db:
        db.executescript("""
            CREATE TABLE alembic_version (version_num TEXT); CREATE TABLE slot_pool (pool TEXT);
            CREATE TABLE dag (dag_id TEXT, is_paused INT, is_stale INT);
            CREATE TABLE job (job_type TEXT, state TEXT, latest_heartbeat TEXT);
            INSERT INTO slot_pool VALUES ('spark'); INSERT INTO dag VALUES ('cloudtrail_hourly', 1, 0), ('cloudtrail_continuous', 1, 0);
        """)
        db.execute(
            "INSERT INTO job VALUES ('SchedulerJob', 'running', ?)", [str(datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=1))]
        )

    def said():
        return [part.sentence for part in examine(load_settings(home=home), LOW_PORT_FREE) if part.part == "airflow" and part.state != "ok"]

    assert [sentence.split(",")[0].split(":")[0] for sentence in said()] == [
        "Airflow's database was made ready by an unknown version",
        "Airflow lacks the pool stream",
        "cloudtrail_hourly is paused and cloudtrail_continuous does not run",
        said()[-1].split(",")[0].split(":")[0],
    ]
    assert "The scheduler was last heard of at" in said()[-1]
    (home / "airflow" / "prepared").write_text(version("apache-airflow"))
    with sqlite3.connect(database) as db:
        db.execute("INSERT INTO slot_pool VALUES ('stream')")
        db.execute("UPDATE dag SET is_paused = 0 WHERE dag_id = 'cloudtrail_continuous'")
        db.execute("UPDATE job SET latest_heartbeat = ?", [str(datetime.now(UTC).replace(tzinfo=None))])
    assert said() == []
    database.write_bytes(b"not a database")
    assert "It cannot be looked at" in said()[0]


def test_the_command_ends_with_2_when_something_is_wrong(home, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(home))
    monkeypatch.setenv("ASSAY_PORT", "1")
    assert CliRunner().invoke(app, ["doctor"]).exit_code == 0
    monkeypatch.setenv("ASSAY_DRIVER_MEMORY", "9000g")
    shown = CliRunner().invoke(app, ["doctor", "--install-only", "--json"])
    assert shown.exit_code == 2 and json.loads(shown.stdout)["checkpoints"] == []
    assert {row["part"] for row in json.loads(shown.stdout)["installation"] if row["state"] == "wrong"} == {"memory"}
    monkeypatch.setenv("ASSAY_DRIVER_MEMRY", "2g")
    assert CliRunner().invoke(app, ["doctor"]).exit_code == 2
