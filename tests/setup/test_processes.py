"""No child is left: not one that ignores the signal, not one whose own parent has died, not when we are killed ourselves."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

PROJECT = Path(__file__).parents[2]

# A child with a stubborn grandchild in another session, and an orphan whose parent has left.
FAMILY = """
import os, signal, subprocess, sys, time
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
stubborn = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE, start_new_session=True)
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
log = Path(sys.argv[1])
with log.open("wb") as output:
    env = {"ASSAY_TEST": sys.argv[1], "PATH": "/usr/bin:/bin"}
    processes.start([sys.executable, "-c", sys.argv[2]], env=env, cwd=Path("/"), log=output)
while "ready" not in log.read_text():
    time.sleep(0.05)
if sys.argv[3] == "end":
    print(processes.end_family(grace_s=1), flush=True)
else:
    print("waiting", flush=True)
    time.sleep(600)
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


@pytest.fixture
def driver(tmp_path):
    mark = str(tmp_path / "log")

    def start(how: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", DRIVER, mark, FAMILY, how], cwd=PROJECT, stdout=subprocess.PIPE, text=True)

    start.mark = mark
    yield start
    for process in family(mark):
        process.kill()


def test_the_whole_family_is_ended_and_the_stubborn_are_killed(driver):
    said, _ = driver("end").communicate(timeout=60)
    assert said.strip() == "1", "one of them ignored the first signal"
    assert family(driver.mark) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_a_child_is_asked_to_end_when_we_are_killed(driver):
    started = driver("wait")
    started.stdout.readline()
    child = next(process for process in psutil.Process(started.pid).children() if process.environ().get("ASSAY_TEST"))
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    deadline = time.monotonic() + 10
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the child lives on"
        time.sleep(0.05)
