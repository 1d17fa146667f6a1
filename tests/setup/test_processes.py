"""No child is left: not one that ignores the signal, not one whose own parent has died, not when we are killed ourselves."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

PROJECT = Path(__file__).parents[2]

# As Airflow's scheduler when it is asked to end while it starts its workers: it waits for ever for one that does not heed the request.
# That one is in another session, and beside it is an orphan whose parent has left.
FAMILY = """
import os, signal, subprocess, sys, time
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
stubborn = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE, start_new_session=True)
signal.signal(signal.SIGTERM, lambda *_: stubborn.wait())
stubborn.stdout.readline()
subprocess.run([sys.executable, "-c", "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)"])
print("ready", flush=True)
time.sleep(600)
"""

DRIVER = """
import sys, time
from pathlib import Path
from spark_jobs.cli import processes
processes.adopt_orphans()
log, how = Path(sys.argv[1]), sys.argv[3]
with log.open("wb") as output:
    env = {"ASSAY_TEST": sys.argv[1], "PATH": "/usr/bin:/bin"}
    started = processes.start([sys.executable, "-c", sys.argv[2]], env=env, cwd=Path("/"), log=output, grace_s=1)
print(started.pid, flush=True)
if how == "ended":
    print(started.wait(), flush=True)
while how != "at once" and "ready" not in log.read_text():
    time.sleep(0.05)
if how == "keeper killed":
    started.kill()
if how in ("end", "keeper killed"):
    print(processes.end_family(grace_s=1), flush=True)
print("waiting", flush=True)
time.sleep(600 if how in ("wait", "at once") else 0)
"""


def family(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("ASSAY_TEST") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def wait_until_gone(mark: str) -> None:
    deadline = time.monotonic() + 30
    while left := family(mark):
        assert time.monotonic() < deadline, [process.cmdline() for process in left]
        time.sleep(0.05)


@pytest.fixture
def driver(tmp_path):
    marks = []

    def start(how: str, server: str = FAMILY) -> subprocess.Popen[str]:
        mark = str(tmp_path / f"log{len(marks)}")
        marks.append(mark)
        started = subprocess.Popen([sys.executable, "-c", DRIVER, mark, server, how], cwd=PROJECT, stdout=subprocess.PIPE, text=True)
        started.mark = mark
        return started

    yield start
    for mark in marks:
        for process in family(mark):
            process.kill()


def test_the_whole_family_is_ended_and_the_stubborn_are_killed(driver):
    started = driver("end")
    said, _ = started.communicate(timeout=60)
    assert said.split()[1] == "2", "one ignored the first signal, and the other waited for it"
    assert family(started.mark) == []


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to a process of ours")


@linux_only
def test_should_we_be_killed_the_whole_family_ends_all_the_same(driver):
    started = driver("wait")
    while started.stdout.readline() != "waiting\n":
        pass
    assert len(family(started.mark)) == 4, "keeper, server, its deaf child and the orphan"
    started.kill()
    wait_until_gone(started.mark)


@linux_only
def test_killed_in_the_moment_of_starting_it_leaves_nothing(driver):
    """At each of these moments: before the keeper runs, before its server does, while that starts its own."""
    for pause in (0, 0.02, 0.05, 0.1, 0.2, 0.4):
        started = driver("at once")
        started.stdout.readline()
        time.sleep(pause)
        started.kill()
        wait_until_gone(started.mark)


@linux_only
def test_a_killed_keeper_leaves_its_family_to_us_and_a_server_that_ended_says_how(driver):
    orphaned = driver("keeper killed")
    orphaned.communicate(timeout=60)
    assert family(orphaned.mark) == []

    for server, code in (("raise SystemExit(7)", "7"), ("import os; os.kill(os.getpid(), 9)", "137")):
        ended = driver("ended", f"print('ready', flush=True); {server}")
        said, _ = ended.communicate(timeout=30)
        assert said.split()[1] == code
        assert family(ended.mark) == []
