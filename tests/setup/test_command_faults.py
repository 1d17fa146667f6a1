"""Faults that the drivers foresee: one sentence on standard error, a non-zero exit, nothing started."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.cli.airflow_home import airflow_environment, only_one
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.settings import load_settings

PROJECT = Path(__file__).parents[2]

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))
from spark_jobs.cli.run import main
sys.exit(main([]))
"""


def command(module: str, home: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"spark_jobs.cli.{module}", *arguments],
        cwd=PROJECT,
        env={**os.environ, "ASSAY_HOME": str(home), **env},
        capture_output=True,
        text=True,
    )


def one_sentence(ran: subprocess.CompletedProcess[str]) -> str:
    assert ran.returncode == 2, ran
    lines = ran.stderr.strip().splitlines()
    assert len(lines) == 1, ran.stderr
    return lines[0]


def test_a_folder_that_is_not_there(tmp_path):
    said = one_sentence(command("run", tmp_path, "--files", str(tmp_path / "nowhere")))
    assert f"{tmp_path}/nowhere does not exist" in said and "FILES=" in said


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_folder_that_may_not_be_read(tmp_path):
    (tmp_path / "mine").mkdir(mode=0o000)
    assert "cannot be read; change its permissions" in one_sentence(command("run", tmp_path, "--files", str(tmp_path / "mine")))


def test_an_unknown_pipeline_and_an_impossible_setting(tmp_path):
    assert "no pipeline 'nosuch'" in one_sentence(command("run", tmp_path, "--pipeline", "nosuch"))
    assert "ASSAY_TRIGGER='hourly'" in one_sentence(command("run", tmp_path, ASSAY_TRIGGER="hourly"))


def test_a_state_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    assert "cannot be written" in one_sentence(command("run", tmp_path / "file"))


@pytest.mark.parametrize("bytes_left", [1_000, 100_000], ids=["for the sample", "for Airflow's database"])
def test_a_disk_without_room_is_one_sentence(tmp_path, bytes_left):
    """A limit on the size of any file written stands for the full disk: the same calls fail, and no rights are needed to arrange it."""
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED.format(bytes_left)],
        cwd=PROJECT,
        env={**os.environ, "ASSAY_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode in (1, 2), ran
    assert len(ran.stderr.strip().splitlines()) == 1, ran.stderr
    assert "too large" in ran.stderr or "disk" in ran.stderr


def test_a_port_in_use_is_said_before_anything_is_started(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        said = one_sentence(command("up", tmp_path, ASSAY_PORT=str(taken.getsockname()[1])))
    assert "is in use by another program" in said and "ASSAY_PORT=" in said
    assert not (tmp_path / "airflow").exists()


@pytest.mark.parametrize("port", ["http", "0", "70000"])
def test_a_port_that_is_none(tmp_path, port):
    assert f"ASSAY_PORT={port} is not a port" in one_sentence(command("up", tmp_path, ASSAY_PORT=port))


def test_two_commands_do_not_work_on_one_airflow(tmp_path):
    with only_one(load_settings(home=tmp_path), "make up"):
        assert "`make up` is at work" in one_sentence(command("run", tmp_path))
        assert "`make up` is at work" in one_sentence(command("up", tmp_path, ASSAY_PORT="18099"))
    with only_one(load_settings(home=tmp_path), "make run"):
        pass  # it is free again


def test_airflow_is_bound_to_the_loopback_interface_and_knows_no_foreign_settings(tmp_path):
    env = airflow_environment(load_settings(home=tmp_path), {"PATH": "/bin", "AIRFLOW__API__HOST": "0.0.0.0", "AIRFLOW_HOME": "/elsewhere"})
    assert env["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert env["AIRFLOW_HOME"] == str(tmp_path / "airflow")
    assert env["AIRFLOW__CORE__LOAD_EXAMPLES"] == "False"
    assert [file.stat().st_mode & 0o777 for file in (tmp_path / "airflow").glob("*.secret")] == [0o600, 0o600]


def test_secrets_are_made_once(tmp_path):
    first, second = (airflow_environment(load_settings(home=tmp_path), {})["AIRFLOW__API_AUTH__JWT_SECRET"] for _ in range(2))
    assert first == second and len(first) >= 32


def test_a_faulty_environment_is_a_configuration_fault(tmp_path):
    (tmp_path / "airflow").touch()
    with pytest.raises(ConfigurationFault, match="cannot be written"):
        airflow_environment(load_settings(home=tmp_path), {})
