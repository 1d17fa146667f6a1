"""Alerts on real runs: a healthy one tells nothing, a stopped gate and a growing quarantine are told, and that they are over."""

from datetime import timedelta

from typer.testing import CliRunner

from spark_jobs.cli.held import app as held_command
from spark_jobs.jobs.watch import look
from spark_jobs.spec.tables import TableId
from tests.builders.corpus import FOLDER, good_file
from tests.builders.receivers import Mailbox, mail_server

SILVER, FIRST = "silver.cloudtrail_events", "v1-00000001"
GATE = f"gate failed, {SILVER} {FIRST}"


def test_a_stopped_gate_and_what_it_sends_to_quarantine_are_told_once_and_so_is_their_end(stack, tmp_path):
    mailbox = Mailbox()
    with mail_server(mailbox) as port:
        told = {"home": tmp_path, "smtp_host": "127.0.0.1", "smtp_port": port, "smtp_starttls": False, "alert_to": "ops@example.org"}
        settings = stack.settings.model_copy(update=told)

        def told_now(later=timedelta(0)):
            done = look(settings, stack.pipeline, stack.clock() + later)
            return done, [mail["Subject"].strip().removeprefix("[assay cloudtrail] ") for mail in mailbox.take()]

        land(stack, "good", good_file(*range(1, 9)))
        assert stack.run() is None
        healthy, subjects = told_now()
        assert (healthy.changed, subjects) == ([], []), "a healthy run tells nothing"

        land(stack, "mostly_broken", good_file(*range(10, 15)) + good_file(*range(20, 42), eventID=...))
        assert stack.run() is not None
        assert told_now()[1] == [f"CRITICAL: {GATE}"]
        assert told_now()[1] == []

        release = ["release", SILVER, FIRST, "--note", "known"]
        assert CliRunner().invoke(held_command, release, env=stack.environment()).exit_code == 0
        assert stack.run() is None
        done, subjects = told_now()
        assert {(one.rule, one.state) for one in done.changed} == {("gate_failed", "recovered"), ("quarantine_growing", "firing")}
        assert len(subjects) == 1 and subjects[0].startswith(f"WARNING: quarantine growing, {SILVER} ") and "and 1 more" in subjects[0]
        assert told_now(timedelta(hours=23))[1] == [], "freshness, silence and traffic are as they should be"
        done, subjects = told_now(timedelta(hours=26))
        assert {(one.rule, one.state) for one in done.changed} == {("quarantine_growing", "recovered"), ("source_silent", "firing")}
        assert stack.ops.exists(TableId("_ops", "incidents"))


def land(stack, name, content):
    stack.land(f"{FOLDER}/{name}.json.gz", content)
    stack.discover()
