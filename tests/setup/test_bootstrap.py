"""The first command on a fresh machine: what it calls, what it says, and that it does nothing twice."""

import subprocess
from pathlib import Path

import pytest

BOOTSTRAP = Path(__file__).parents[2] / "infra" / "setup" / "bootstrap.sh"


@pytest.fixture
def bootstrap(tmp_path, bare_path):
    """Run bootstrap.sh on a machine that has only what the test put on its PATH."""

    def run(**env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", str(BOOTSTRAP)],
            env={"PATH": str(bare_path), "ASSAY_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)} | env,
            capture_output=True,
            text=True,
        )

    return run


@pytest.fixture
def uv(tmp_path, program):
    """A uv that writes down how it was called and makes an environment whose Python writes down how it was called."""
    calls = tmp_path / "calls"
    python = f'#!/bin/sh\\necho "python $*" >> {calls}'
    program(
        "tools/uv",
        f'echo "uv $*" >> {calls}\nmkdir -p "$UV_PROJECT_ENVIRONMENT/bin"\n'
        f'printf \'{python}\' > "$UV_PROJECT_ENVIRONMENT/bin/python"\n/bin/chmod +x "$UV_PROJECT_ENVIRONMENT/bin/python"',
    )
    return lambda: calls.read_text().splitlines() if calls.exists() else []


def test_without_python_one_sentence_says_which_is_wanted(bootstrap):
    ran = bootstrap()
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert "no Python from 3.11 to 3.13" in ran.stderr


def test_a_python_that_is_too_old_is_not_taken(bootstrap, program):
    program("tools/python3", "exit 1")  # as a real one answers the question whether it is 3.11 to 3.13
    assert "no Python from 3.11 to 3.13" in bootstrap().stderr


def test_a_state_folder_that_cannot_be_made_is_one_sentence(bootstrap, tmp_path):
    (tmp_path / "file").touch()
    ran = bootstrap(ASSAY_HOME=str(tmp_path / "file" / "state"))
    assert ran.returncode == 2
    assert "cannot be made" in ran.stderr and ran.stderr.count("\n") == 1


def test_installs_the_lock_then_the_rest_and_nothing_the_second_time(bootstrap, uv, tmp_path):
    assert bootstrap().returncode == 0
    installed, prepared = uv()
    assert installed.startswith("uv sync --frozen")
    assert prepared == f"python -m infra.setup {tmp_path}/state"
    again = bootstrap()
    assert again.returncode == 0 and again.stderr == ""
    assert len(uv()) == 2


def test_another_java_on_the_machine_is_looked_at_again(bootstrap, uv, program):
    bootstrap()
    program("tools/java", "exit 0")
    bootstrap()
    assert len(uv()) == 4


def test_a_failed_installation_is_tried_again(bootstrap, uv, program, tmp_path):
    program("tools/uv", "exit 1")
    ran = bootstrap()
    assert ran.returncode == 2 and "could not be installed" in ran.stderr
    assert not (tmp_path / "state" / "set-up").exists()
