"""State folders for tests of set-up: real ones are shared, so each test gets its own."""

import os
import stat

import pytest


@pytest.fixture
def program(tmp_path):
    """Write an executable shell script below tmp_path and return its path."""

    def write(name: str, body: str):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return write


@pytest.fixture
def bare_path(tmp_path):
    """A PATH with the few tools that bootstrap.sh needs, and neither Python, uv nor Java."""
    import shutil

    folder = tmp_path / "tools"
    folder.mkdir()
    for tool in ("bash", "sh", "cat", "cksum", "dirname", "mkdir", "env"):
        os.symlink(shutil.which(tool), folder / tool)
    return folder
