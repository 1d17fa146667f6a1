"""Alerts out of a real `make up`: a failure is mailed within seconds, a missed deadline by the triggerer, and both end with a green run."""

import re
import sqlite3
import time

import pytest

from tests.builders.receivers import Mailbox, mail_server
from tests.builders.running_airflow import running

DAG = "cloudtrail_hourly"
PATIENCE_S = 600


@pytest.mark.timeout(2400)
def test_a_failure_and_a_missed_deadline_are_mailed_and_so_is_their_end(tmp_path):
    landing, mailbox = tmp_path / "landing", Mailbox()
    landing.mkdir()
    told = {"ASSAY_SMTP_HOST": "127.0.0.1", "ASSAY_SMTP_STARTTLS": "false", "ASSAY_ALERT_TO": "ops@example.org"}
    (tmp_path / "home").mkdir()
    with mail_server(mailbox) as port, running(tmp_path / "home", landing, **told, ASSAY_SMTP_PORT=str(port)) as up:
        up.wait_for(r"Airflow: http\S+")
        api = up.api()
        (landing / "emptied").mkdir()
        landing.rename(tmp_path / "away")
        failed = api.trigger(DAG)
        up.wait_for(rf"Run {re.escape(failed)} of {DAG} ended: failed")
        ended = time.monotonic()
        mail = await_mail(mailbox, f"task failed, {DAG}.discover")
        print(f"mailed {time.monotonic() - ended:.0f} s after the run had ended: {mail}")
        missed = time.monotonic()
        make_overdue(up.home / "airflow" / "airflow.db", failed)
        mail = await_mail(mailbox, f"deadline missed, {DAG}")
        print(f"mailed {time.monotonic() - missed:.0f} s after the deadline: {mail}")
        (tmp_path / "away").rename(landing)
        green = api.trigger(DAG)
        up.wait_for(rf"Run {re.escape(green)} of {DAG} ended: success")
        mail = await_mail(mailbox, "RECOVERED")
        print(f"and over: {mail}")


def await_mail(mailbox, wanted):
    """The subject of the mail that says it; other mails may come before."""
    deadline = time.monotonic() + PATIENCE_S
    came = []
    while time.monotonic() < deadline:
        came += mailbox.take()
        for mail in came:
            if wanted in mail["Subject"]:
                return mail["Subject"].strip()
        time.sleep(1)
    raise AssertionError(f"no mail says '{wanted}'; there came {[mail['Subject'] for mail in came]}")


def make_overdue(database, run_id):
    """Airflow made the deadline with the run; an hour later it would be missed."""
    with sqlite3.connect(database, timeout=60) as connection:
        changed = connection.execute(
            "update deadline set deadline_time = datetime('now', '-1 minute') where dagrun_id = (select id from dag_run where run_id = ?)",
            [run_id],
        ).rowcount
    assert changed == 1
