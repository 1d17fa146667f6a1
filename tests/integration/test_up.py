"""`make up` as a person uses it: a run made green by the scheduler, nothing open to the network, and nothing left after the signal."""

import json
import re
import shutil
import signal
import socket
import time
from urllib.parse import quote

import psutil
import pytest

from spark_jobs.cli.up import SERVERS
from spark_jobs.io.lake import lake_table
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import TableId
from tests.builders.continuous_driver import words_of
from tests.builders.running_airflow import PATIENCE_S, get, land_history, running

DAG = "cloudtrail_hourly"
SAMPLE, HISTORY = 2092, 5  # events of the sample, and of what the backfill brings in
ENDED = rf"Run (\S+) of {DAG} ended: (\w+)\."


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with running(tmp_path_factory.mktemp("up")) as one:
        yield one


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
    question = up.question_of(real)
    assert "2024-05-02" in question["body"] and question["options"] == ["Approve", "Reject"]
    assert len(up.rows("silver.cloudtrail_events")) == SAMPLE
    api.respond(question, "Approve")
    up.wait_for(rf"Run {re.escape(real)} of cloudtrail_backfill ended: success")
    assert len(up.rows("silver.cloudtrail_events")) == SAMPLE + 3, "the gate held the other day's batch"

    # Held: the question shows what failed, with the data masked; the answer counts once, under the user's name.
    held = up.rows("silver.cloudtrail_events_held")
    run_id = f"held__silver.cloudtrail_events__{held[0]['_batch_id']}"
    question = up.question_of(run_id)
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
    assert is_free(up.port)


@pytest.mark.timeout(900)
def test_after_that_signal_the_next_up_finishes_what_was_cut_off(up):
    assert up.family() == []
    up.start()
    run_id, state = up.wait_for(ENDED).groups()
    assert state == "success", f"{run_id}: {up.said}"
    assert "password: in " in up.said, "the password was printed the first time only"
    assert len(up.rows("silver.cloudtrail_events_duplicates")) > 0
    assert len(up.rows("silver.cloudtrail_events")) == SAMPLE + HISTORY
    questions = up.api().questions()
    assert [question["task_instance"]["dag_run_id"] for question in questions] == ["unanswered"], "a question outlives a restart"
    up.api().respond(questions[0], "Reject")
    up.wait_for("Run unanswered of cloudtrail_backfill ended: success")
    chunks = [row for row in up.rows("_ops.backfill_chunks") if row["run_id"] == "unanswered" and row["state"] == "cancelled"]
    assert [row["claimed_by"] for row in chunks] == ["cancelled by admin"] * 2
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(timeout=90) == 0
    assert up.family() == []


@pytest.mark.timeout(300)
def test_should_it_be_killed_itself_its_servers_end_by_themselves(up):
    """In the worst moment: the scheduler is starting its workers, when it loses a request to end, and here it heeds none at all."""
    if up.process.poll() is not None:
        up.start()
    deadline = time.monotonic() + PATIENCE_S
    while not (workers := [worker for scheduler in schedulers(up) for worker in scheduler.children()]):
        assert time.monotonic() < deadline, up.said
        time.sleep(0.01)
    workers[0].parent().suspend()
    assert len(up.family()) > len(SERVERS) + 1
    up.process.kill()
    up.process.wait()
    deadline = time.monotonic() + 90
    while left := up.family():
        assert time.monotonic() < deadline, left
        time.sleep(0.5)
    assert is_free(up.port)


def schedulers(up):
    keepers = psutil.Process(up.process.pid).children()
    return [server for keeper in keepers if " scheduler" in words_of(keeper) for server in keeper.children()]


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a server does; connections that have ended linger a while
        probe.bind(("127.0.0.1", port))
    return True
