"""`make up` as a person uses it: a run made green by the scheduler, nothing open to the network, and nothing left after the signal."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from urllib.parse import quote

import psutil
import pytest

from spark_jobs.cli.airflow_api import AirflowApi
from spark_jobs.cli.up import SERVERS
from spark_jobs.io.lake import lake_table
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import TableId
from tests.builders.events import event
from tests.builders.landing_files import document, land, packed
from tests.builders.stack import PROJECT

DAG = "cloudtrail_hourly"
SAMPLE, HISTORY = 2092, 5  # events of the sample, and of what the backfill brings in
ENDED = rf"Run (\S+) of {DAG} ended: (\w+)\."
PATIENCE_S = 480  # one run takes 90 s on two quiet cores


class Up:
    """A running `make up` with a state folder of its own."""

    def __init__(self, home):
        self.home = home
        for part in ("jars", "java"):
            (home / part).symlink_to(PROJECT / ".assay" / part)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.output = home / "up.out"
        self.seen: set[psutil.Process] = set()
        self.start()

    def start(self):
        own = {"ASSAY_HOME": str(self.home), "ASSAY_PORT": str(self.port), "PYTHONUNBUFFERED": "1"}
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


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    running = Up(tmp_path_factory.mktemp("up"))
    yield running
    running.family()  # while the relations between them can still be seen
    running.process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        running.process.wait(timeout=60)
    for process in running.family():
        process.kill()


def get(up, path, token=""):
    request = urllib.request.Request(f"http://127.0.0.1:{up.port}{path}", headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as fault:
        return fault.code, fault.read().decode(), fault.headers


@pytest.mark.timeout(1500)
def test_the_scheduler_makes_a_green_run_of_the_sample_and_the_report_is_on_its_page(up):
    run_id, state = up.wait_for(ENDED).groups()
    assert state == "success", up.said
    assert run_id.startswith("scheduled__"), "the schedule itself made the run"
    assert len(up.rows("silver.cloudtrail_events")) == SAMPLE

    password = json.loads((up.home / "airflow" / "passwords.json").read_text())["admin"]
    assert up.said.count(password) == 1
    assert (up.home / "airflow" / "passwords.json").stat().st_mode & 0o777 == 0o600
    logs = [file for file in (up.home / "airflow" / "logs").rglob("*.log") if password in file.read_text(errors="replace")]
    assert logs == []

    api = up.api()
    tasks = api._ask("GET", f"/dags/{DAG}/dagRuns/{quote(run_id)}/taskInstances")["task_instances"]
    assert {task["task_id"]: (task["state"], task["try_number"]) for task in tasks} == {task["task_id"]: ("success", 1) for task in tasks}
    assets = {event["name"] for event in api._ask("GET", "/assets/events")["asset_events"]}
    assert {"bronze.cloudtrail_records", "silver.cloudtrail_events", "gold.cloudtrail_activity_1h"} <= assets

    link = api._ask("GET", f"/dags/{DAG}/dagRuns/{quote(run_id)}/taskInstances/report/links")["extra_links"]["Quality report"]
    status, page, headers = get(up, link, api._token)
    assert status == 200
    assert run_id in page and "2,092" in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert get(up, "/assay/reports/", api._token)[0] == 200


@pytest.mark.timeout(60)
def test_no_report_is_shown_without_login_or_from_outside_the_folder_of_reports(up):
    up.wait_for(rf"{DAG} ended: success")
    token = up.api()
    token.runs(DAG)
    (up.home / "secret.txt").write_text("secret")
    (up.home / "reports" / "way_out").symlink_to(up.home / "secret.txt")
    for path in ("/assay/reports/", "/assay/reports/index.html", f"/assay/report/{DAG}/x"):
        assert get(up, path)[0] == 401, path
    for path in ("../secret.txt", "%2e%2e/secret.txt", "%2e%2e%2fsecret.txt", "way_out", "/etc/passwd", "%2Fetc%2Fpasswd", "nothing.html"):
        status, body, _ = get(up, f"/assay/reports/{path}", token._token)
        assert status == 404, path
        assert "secret" not in body
    assert get(up, f"/assay/report/{DAG}/no-such-run", token._token)[0] == 404


@pytest.mark.timeout(60)
def test_nothing_listens_beyond_the_loopback_interface(up):
    up.wait_for(rf"{DAG} ended: success")
    listening = {
        (connection.laddr.ip.removeprefix("::ffff:"), connection.laddr.port)
        for process in up.family()
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert ("127.0.0.1", up.port) in listening, "the API server is one of those looked at"
    assert {address for address, _ in listening} <= {"127.0.0.1", "::1"}, listening


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


@pytest.mark.timeout(900)
def test_history_is_loaded_from_the_form_and_what_its_gate_held_is_released_by_a_person(up, tmp_path_factory):
    up.wait_for(rf"{DAG} ended: success")
    form, api = land_history(tmp_path_factory.mktemp("history")), up.api()

    # A dry run, the form's default: it ends green after the plan, which is on the run's page, and changes no table.
    before = lake_table(load_settings(home=up.home), TableId.parse("silver.cloudtrail_events")).version()
    dry = api.trigger("cloudtrail_backfill", **form)
    up.wait_for(rf"Run {re.escape(dry)} of cloudtrail_backfill ended: success")
    assert lake_table(load_settings(home=up.home), TableId.parse("silver.cloudtrail_events")).version() == before
    status, page, _ = get(up, f"/assay/report/cloudtrail_backfill/{quote(dry)}", api._token)
    assert status == 200 and "<td>2024-05-02</td>" in page and "predicted time" in page
    assert get(up, f"/assay/report/cloudtrail_backfill/{quote(dry)}")[0] == 401

    # For real: nothing is done until a person has seen the same plan.
    api._ask(
        "POST", "/dags/cloudtrail_backfill/dagRuns", {"logical_date": None, "dag_run_id": "unanswered", "conf": {**form, "dry_run": False}}
    )
    real = api.trigger("cloudtrail_backfill", **form, dry_run=False)
    question = ask_of(up, real)
    assert "2024-05-02" in question["body"] and question["options"] == ["Approve", "Reject"]
    assert len(up.rows("silver.cloudtrail_events")) == SAMPLE
    api.respond(question, "Approve")
    up.wait_for(rf"Run {re.escape(real)} of cloudtrail_backfill ended: success")
    assert len(up.rows("silver.cloudtrail_events")) == SAMPLE + 3, "the gate held the other day's batch"

    # Held: the question shows what failed, with the data masked; the answer counts once, under the user's name.
    held = up.rows("silver.cloudtrail_events_held")
    run_id = f"held__silver.cloudtrail_events__{held[0]['_batch_id']}"
    question = ask_of(up, run_id)
    assert "2 rows" in question["subject"] and "account" in question["body"] and "twelve digits" not in question["body"]
    api.respond(question, "Release", note="seen by hand")
    with pytest.raises(ConfigurationFault, match="409"):
        api.respond(question, "Reject")
    up.wait_for(rf"Run {re.escape(run_id)} of cloudtrail_held ended: success")
    assert len(up.rows("silver.cloudtrail_events")) == SAMPLE + HISTORY
    assert up.rows("silver.cloudtrail_events_held") == []
    assert sum(row["event_count"] for row in up.rows("gold.cloudtrail_activity_1h")) == SAMPLE + HISTORY
    decided = [(row["decision"], row["who"], row["note"]) for row in up.rows("_ops.decisions")]
    assert decided == [("release", "admin", "seen by hand")]

    # Run again, it finds that it was decided, and changes nothing.
    again = {"dry_run": False, "dag_run_id": run_id, "only_failed": False, "reset_dag_runs": True}
    api._ask("POST", "/dags/cloudtrail_held/clearTaskInstances", again)
    deadline = time.monotonic() + PATIENCE_S
    while api._ask("GET", f"/dags/cloudtrail_held/dagRuns/{quote(run_id)}")["state"] != "success":
        assert time.monotonic() < deadline
        time.sleep(1)
    assert len(up.rows("silver.cloudtrail_events")) == SAMPLE + HISTORY
    assert len(up.rows("_ops.decisions")) == 1


def ask_of(up, run_id):
    """The question that a run asks, once it does."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := [one for one in up.api().questions() if one["task_instance"]["dag_run_id"] == run_id]):
        assert time.monotonic() < deadline, up.said
        time.sleep(1)
    return found[0]


@pytest.mark.timeout(900)
def test_a_signal_in_the_middle_of_a_spark_job_leaves_no_process(up):
    up.wait_for(rf"{DAG} ended: success")
    sample = next((up.home / "landing").rglob("*.json.gz"))
    shutil.copy(sample, sample.with_name(f"again_{sample.name}"))
    up.api().trigger(DAG)
    deadline = time.monotonic() + PATIENCE_S
    while not any(process.name() == "java" for process in up.family()):
        assert time.monotonic() < deadline, up.said
        time.sleep(0.2)
    assert len(up.family()) > 5
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(timeout=90) == 0, up.said
    assert up.family() == []
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a server does; connections that have ended linger a while
        probe.bind(("127.0.0.1", up.port))


@pytest.mark.timeout(900)
def test_after_that_signal_the_next_up_finishes_what_was_cut_off(up):
    assert up.family() == []
    up.start()
    run_id, state = up.wait_for(ENDED).groups()
    assert state == "success", f"{run_id}: {up.said}"
    assert "password: in " in up.said, "the password was printed the first time only"
    assert len(up.rows("silver.cloudtrail_events_duplicates")) > 0
    assert len(up.rows("silver.cloudtrail_events")) == SAMPLE + HISTORY
    assert [question["task_instance"]["dag_run_id"] for question in up.api().questions()] == ["unanswered"], "questions outlive a restart"
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(timeout=90) == 0
    assert up.family() == []


@pytest.mark.timeout(300)
def test_should_it_be_killed_itself_its_servers_end_by_themselves(up):
    if up.process.poll() is not None:
        up.start()
    up.wait_for("Ctrl-C stops all of it")
    deadline = time.monotonic() + 90
    while len(up.family()) <= len(SERVERS) + 1:  # until the scheduler has workers of its own
        assert time.monotonic() < deadline, up.family()
        time.sleep(0.2)
    up.process.kill()
    up.process.wait()
    deadline = time.monotonic() + 90
    while left := up.family():
        assert time.monotonic() < deadline, left
        time.sleep(0.5)
