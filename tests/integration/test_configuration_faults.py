"""Faults of the set-up: one sentence that says what to do, an exit code that is not zero, nothing lost."""

import json
import os
import subprocess
from contextlib import contextmanager

import pytest

from spark_jobs.io.lease import Leases
from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.corpus import FOLDER, good_file
from tests.builders.rights import AS_A_USER
from tests.builders.stack import Stack

CONFIGURATION, LEASE, STORAGE = 2, 3, 7  # exit codes


@pytest.fixture
def listed(stack):
    """A stack with three events in a listed file."""
    stack.land(f"{FOLDER}/a.json.gz", good_file(1, 2, 3))
    stack.discover()
    return stack


def _sentence(done, code, *parts):
    """The one line that a refused job leaves, which names these parts; without any trace of the program's inside."""
    assert done.returncode == code, done.stderr
    sentence = json.loads(done.stdout.splitlines()[-1])["sentence"]
    assert [line for line in done.stderr.splitlines() if sentence in line] == done.stderr.splitlines()[-1:]
    for part in parts:
        assert part in sentence
    assert "Traceback" not in done.stderr and "\tat " not in done.stderr, done.stderr
    return sentence


def _only_sentence(done, code, *parts):
    """The same, and nothing else was said."""
    _sentence(done, code, *parts)
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_a_missing_landing_folder(tmp_path):
    stack = Stack(tmp_path)
    stack.landing.rmdir()
    _only_sentence(stack.job("discover"), CONFIGURATION, str(stack.landing), "does not exist", "ASSAY_LANDING")
    stack.landing.write_text("")
    _only_sentence(stack.job("discover"), CONFIGURATION, str(stack.landing), "is a file")


def test_a_landing_folder_without_permission(tmp_path):
    stack = Stack(tmp_path)
    stack.land(f"{FOLDER}/a.json.gz", good_file(1))
    with _mode(stack.landing, 0):
        _only_sentence(stack.job("discover", under=AS_A_USER), CONFIGURATION, str(stack.landing), "permission denied")
    # A folder below it does not keep the others from being listed, and is said.
    closed = stack.land("AWSLogs/222233334444/CloudTrail/eu-west-1/2024/05/01/b.json.gz", good_file(2)).parent
    for options in ((), ("--sweep",)):
        with _mode(closed, 0):
            done = stack.job("discover", *options, under=AS_A_USER)
        assert done.returncode == 0
        assert len([line for line in done.stderr.splitlines() if f"{closed} may not be listed" in line]) == 1
    assert len(stack.rows("_ops.files")) == 1
    stack.discover()
    assert len(stack.rows("_ops.files")) == 2


@pytest.mark.parametrize(
    ("options", "env", "part"),
    [
        (("--colour",), {}, "--colour"),
        ((), {"ASSAY_TRIGGER": "sometimes"}, "ASSAY_TRIGGER='sometimes'"),
        ((), {"ASSAY_TRIGGER": "continuous"}, "impossible"),
        ((), {"ASSAY_TRIGER": "once"}, "Did you mean ASSAY_TRIGGER?"),
        ((), {"ASSAY_BATCH_FILES": "0"}, "ASSAY_BATCH_FILES='0'"),
        (("--pipeline", "nothing"), {}, "no pipeline 'nothing'"),
    ],
)
def test_an_unknown_option_or_setting(tmp_path, options, env, part):
    _only_sentence(Stack(tmp_path).job("run_layers", *options, env=env), CONFIGURATION, part)


def test_a_wrong_java(tmp_path):
    listed = Stack(tmp_path)
    listed.land(f"{FOLDER}/a.json.gz", good_file(1))
    listed.discover()
    _only_sentence(listed.job("run_layers", env={"JAVA_HOME": "/nowhere"}), CONFIGURATION, "JAVA_HOME (/nowhere)", "make setup")
    java = tmp_path / "old" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    _only_sentence(listed.job("run_layers", env={"JAVA_HOME": str(tmp_path / "old")}), CONFIGURATION, "is Java 11", "17 or 21")
    java.write_text("#!/bin/sh\nexit 1\n")
    _only_sentence(listed.job("run_layers", env={"JAVA_HOME": str(tmp_path / "old")}), CONFIGURATION, "not a working Java")
    assert listed.rows("_ops.file_outcomes") == []


def test_missing_delta_jars(tmp_path):
    listed = Stack(tmp_path)
    listed.land(f"{FOLDER}/a.json.gz", good_file(1))
    listed.discover()
    _only_sentence(listed.job("run_layers", env={"ASSAY_HOME": str(tmp_path / "empty")}), CONFIGURATION, "Delta jars", "make setup")


def test_a_table_that_another_writer_holds(listed):
    with Leases(listed.settings, listed.pipeline.tables("bronze"), "another run"):
        _only_sentence(listed.job("run_layers"), LEASE, "is being written by another run", "wait until it ends")
    assert listed.run() is None
    assert assert_every_record_accounted_for(listed).silver == 3


def test_a_lake_folder_that_may_not_be_written(stack):
    stack.land(f"{FOLDER}/a.json.gz", good_file(1, 2, 3))
    lake = stack.folder / "lake"
    lake.mkdir()
    with _mode(lake, 0o555):
        _only_sentence(stack.job("discover", under=AS_A_USER), STORAGE, "may not write", str(lake))
    stack.discover()
    with _mode(lake, 0o555):
        _only_sentence(stack.job("run_layers", under=AS_A_USER), STORAGE, "may not write", str(lake))
    bronze = lake / "bronze"
    bronze.mkdir()
    with _mode(bronze, 0o555):  # found out by Spark, in the middle of a batch
        _sentence(stack.job("run_layers", under=AS_A_USER), STORAGE, "may not write", str(bronze))
    assert stack.run() is None
    assert assert_every_record_accounted_for(stack).silver == 3


def test_a_full_disk(stack):
    lake = stack.folder / "lake"
    lake.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "none", str(lake)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a small disk takes rights that this user does not have")
    try:
        stack.land(f"{FOLDER}/a.json.gz", good_file(1, 2, 3))
        stack.discover()
        _sentence(stack.job("run_layers"), STORAGE, "is full", str(lake))
        (lake / "rest").write_bytes(b"")
        with pytest.raises(OSError, match="No space left"):
            (lake / "rest").write_bytes(b"x" * 100_000)
        _sentence(stack.job("discover", "--sweep"), STORAGE, "is full", str(lake))
        subprocess.run(["mount", "-o", "remount,size=64m", str(lake)], check=True)
        assert stack.run() is None
        assert assert_every_record_accounted_for(stack).silver == 3
    finally:
        subprocess.run(["umount", str(lake)], check=True)


@contextmanager
def _mode(path, mode):
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        yield
    finally:
        os.chmod(path, before)
