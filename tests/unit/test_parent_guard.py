"""A guarded process ends when its guardian does, by whatever signal; an unguarded one outlives whoever started it. No Spark."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from spark_jobs.io import parent_guard
from spark_jobs.spec.guarding import guarded_by

PROJECT = Path(__file__).parents[2]
JOB = """
import subprocess, sys, time
from spark_jobs.io.parent_guard import guard_parent
guard_parent()
worker = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(worker.pid, flush=True)
time.sleep(600)
"""
# A supervisor, whose child runs the task, whose child is the job: as Airflow's processes are.
RUNNER = """
import os, subprocess, sys
from spark_jobs.spec.guarding import guarded_by
guardians = guarded_by(os.getpid(), os.getppid()) if sys.argv[1] == "guarded" else {}
job = subprocess.Popen([sys.executable, "-c", sys.argv[2]], env={**os.environ, **guardians}, start_new_session=True)
print(job.pid, flush=True)
job.wait()
"""
SUPERVISOR = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', *sys.argv[1:]]); print(p.pid, flush=True); p.wait()"


@pytest.fixture
def family():
    """The processes supervisor, task runner, job and worker; killed at the end, whoever their parent is then."""
    started = []

    def start(how):
        command = [sys.executable, "-c", SUPERVISOR, RUNNER, how, JOB]
        top = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        processes = [psutil.Process(top.pid), *(psutil.Process(int(top.stdout.readline())) for _ in range(3))]
        started.extend(processes)
        return processes

    yield start
    for process in started:
        if process.is_running():
            process.kill()
    # Those who were our own children are collected by their Popen objects.


def is_alive(process):
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def wait_until_gone(*processes):
    deadline = time.monotonic() + 30
    while any(map(is_alive, processes)):
        assert time.monotonic() < deadline, processes
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_job_and_its_workers_end_when_its_task_dies_by_any_signal(family, number):
    _, runner, job, worker = family("guarded")
    runner.send_signal(number)
    wait_until_gone(job, worker)


def test_a_job_ends_when_the_process_that_supervises_its_task_dies(family):
    supervisor, _, job, worker = family("guarded")
    supervisor.kill()
    wait_until_gone(job, worker)


def test_a_job_that_nobody_guards_outlives_who_started_it(family):
    _, runner, job, worker = family("by hand")
    runner.kill()
    wait_until_gone(runner)
    time.sleep(1)  # a guard would have ended it within milliseconds
    assert is_alive(job) and is_alive(worker)


def test_a_job_whose_guardian_is_gone_before_it_looks_ends_at_once():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    ended = subprocess.run(
        [sys.executable, "-c", JOB], cwd=PROJECT, env={**os.environ, **guarded_by(gone.pid)}, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1
    assert f"Process {gone.pid}, which this job must not outlive, has ended." in ended.stderr


def test_an_ancestor_that_dies_while_it_is_looked_for_is_one_that_has_died(monkeypatch):
    """psutil raises when a process of the line ends between two of its steps; a guard that died of it would leave the job unguarded."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    looks, parents = [], psutil.Process.parents

    def looked(process):
        looks.append(process)
        if len(looks) == 1:
            raise psutil.NoSuchProcess(dead.pid)
        return parents(process)

    monkeypatch.setattr(psutil.Process, "parents", looked)
    assert parent_guard._first_to_die([dead.pid]) == dead.pid
    assert len(looks) > 1
