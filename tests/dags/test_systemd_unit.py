"""The systemd unit starts a command that exists, and does not restart what a restart cannot mend."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dags.factory.spark_job import NOT_HEALED_BY_TIME
from spark_jobs.cli.main import app

FOLDER = Path(__file__).parents[2] / "infra" / "systemd"
UNIT = FOLDER / "assay-stream@.service"


@pytest.fixture(scope="module")
def service():
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str
    parser.read(UNIT)
    return parser["Service"]


def test_the_command_of_the_unit_and_of_the_container_exists(service):
    program, *words = service["ExecStart"].split()
    assert program.startswith(service["WorkingDirectory"]) and program.endswith("/venv/bin/assay")
    shown = CliRunner().invoke(app, [*words[:2], "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert shown.exit_code == 0 and "--pipeline" in shown.output
    assert " ".join([program, *words]).replace("%i", "cloudtrail") in (FOLDER / "README.md").read_text()


def test_what_the_next_start_would_find_again_is_not_restarted(service):
    assert {int(code) for code in service["RestartPreventExitStatus"].split()} == NOT_HEALED_BY_TIME
    assert service["Restart"] == "on-failure"


def test_it_is_asked_to_end_before_it_is_killed_and_nothing_is_left(service):
    assert service["KillMode"] == "mixed", "the driver alone knows where a batch ends; what is left is killed with its group"
    assert int(service["TimeoutStopSec"]) >= 120


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
def test_systemd_finds_no_fault_with_it(tmp_path):
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/assay/.assay/venv/bin/assay", shutil.which("true")).replace("User=assay\n", ""))
    checked = subprocess.run(["systemd-analyze", "verify", str(unit).replace("@.", "@cloudtrail.")], capture_output=True, text=True)
    assert UNIT.name not in checked.stderr, checked.stderr
