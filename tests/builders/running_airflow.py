"""`make up` as a process of its own on a state folder of its own, with what a logged-in user can ask of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from spark_jobs.cli.airflow_api import AirflowApi
from spark_jobs.io.lake import lake_table
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import TableId
from tests.builders.events import event
from tests.builders.landing_files import document, land, packed
from tests.builders.stack import PROJECT

PATIENCE_S = 480  # one run takes 90 s on two quiet cores
READING_S = 15  # how long a person reads a question at least


class Up:
    """A running `make up` with a state folder of its own."""

    def __init__(self, home: Path, landing: Path | None = None, more: Mapping[str, str] | None = None) -> None:
        self.home = home
        self.more = dict(more or {})  # settings of its own
        self.landing = landing  # None: the shipped sample lands in the state folder
        for part in ("jars", "java"):
            if not (home / part).exists():
                (home / part).symlink_to(PROJECT / ".assay" / part)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.output = home / "up.out"
        self.seen: set[psutil.Process] = set()
        self.start()

    def start(self):
        own = {"ASSAY_HOME": str(self.home), "ASSAY_PORT": str(self.port), "PYTHONUNBUFFERED": "1"}
        own |= {"ASSAY_LANDING": str(self.landing)} if self.landing else {}
        own = {**self.more, **own}
        env = {name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "AIRFLOW"))} | own
        with self.output.open("w") as output:
            self.process = subprocess.Popen([sys.executable, "-m", "spark_jobs.cli.up"], cwd=PROJECT, env=env, stdout=output, stderr=output)

    @property
    def said(self) -> str:
        return self.output.read_text()

    def wait_for(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + PATIENCE_S
        while not (found := re.search(pattern, self.said)):
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.5)
        return found

    def family(self) -> list[psutil.Process]:
        """Every living process that was ever seen to come from this command or that works on its state folder.

        Airflow's processes write their titles over their environment, so that one sign alone would miss some.
        """
        with contextlib.suppress(psutil.NoSuchProcess):
            self.seen |= {psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)}
        self.seen |= {process for process in psutil.process_iter() if process.pid != os.getpid() and self._is_ours(process)}
        return [process for process in self.seen if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get("ASSAY_HOME") == str(self.home)
        except (psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError):
            return False

    def rows(self, table: str) -> list[dict]:
        """The rows of a table of its lake."""
        found = lake_table(load_settings(home=self.home), TableId.parse(table))
        return [] if found is None else found.to_pyarrow_dataset().to_table().to_pylist()

    def api(self) -> AirflowApi:
        return AirflowApi(self.port, "admin", json.loads((self.home / "airflow" / "passwords.json").read_text())["admin"])

    def question_of(self, run_id: str) -> dict[str, Any]:
        """The question that a run asks a person, once it does and a person could have read it.

        An answer within the seconds after it was asked overtakes the end of the process that asked, and Airflow asks once more.
        """
        deadline = time.monotonic() + PATIENCE_S
        while not (found := [one for one in self.api().questions() if one["task_instance"]["dag_run_id"] == run_id]):
            assert time.monotonic() < deadline, self.said
            time.sleep(1)
        time.sleep(READING_S)
        return found[0]


@contextlib.contextmanager
def running(home: Path, landing: Path | None = None, **more: str) -> Iterator[Up]:
    """A `make up` that leaves nothing behind."""
    up = Up(home, landing, more)
    try:
        yield up
    finally:
        up.family()  # while the relations between them can still be seen
        up.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            up.process.wait(timeout=60)
        for process in up.family():
            process.kill()


def get(up, path, token=""):
    request = urllib.request.Request(f"http://127.0.0.1:{up.port}{path}", headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as fault:
        return fault.code, fault.read().decode(), fault.headers


def land_history(folder):
    """Two days of files outside the landing folder: three events of the one; of the other two, one of which fails silver's gate."""
    days = {
        1: [event(n, eventTime="2024-05-01T10:00:00Z") for n in (1, 2, 3)],
        2: [event(4, eventTime="2024-05-02T10:00:00Z"), event(5, eventTime="2024-05-02T10:00:00Z", recipientAccountId="twelve digits")],
    }
    for day, events in days.items():
        name = f"111122223333_CloudTrail_eu-west-1_202405{day:02d}T1030Z_0000.json.gz"
        land(
            folder,
            packed(document(json.dumps(record).encode() for record in events)),
            f"AWSLogs/111122223333/CloudTrail/eu-west-1/2024/05/{day:02d}/{name}",
        )
    return {"what": "load", "from": "2024-05-01", "to": "2024-05-02", "source": str(folder), "chunk_files": 1}
