"""`assay alerts`: what fires, since when, who was not told; the rules and where they are set; a test message; silence."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from spark_jobs.io.incident_store import IncidentStore
from spark_jobs.spec.tables import AUDITS, VERDICTS
from tests.builders.assay_command import assay, assay_json
from tests.builders.ops_rows import SILVER, failed_verdict, small_settings, verdict_row, write
from tests.builders.receivers import Mailbox, free_port, mail_server, web_server

NOW = datetime.now(UTC)
GATE = f"{SILVER} v1-00000000"


@pytest.fixture
def settings(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, VERDICTS, failed_verdict(evaluated_at=NOW - timedelta(minutes=5), sentence="Not as expected\u001b[2J."))
    return settings


def told_by(monkeypatch, **configured):
    defaults = {"SMTP_HOST": "127.0.0.1", "SMTP_STARTTLS": "false", "ALERT_TO": "ops@example.org"}
    for name, value in (defaults | configured).items():
        monkeypatch.setenv(f"ASSAY_{name}", str(value))


def test_what_fires_is_shown_with_who_was_not_told_and_with_all_what_is_over(settings, monkeypatch):
    assert "Nothing fires." in assay(settings, "alerts").stdout and "NOBODY IS TOLD" in assay(settings, "alerts").stdout
    told_by(monkeypatch, SMTP_PORT=free_port())
    assert "NOT TOLD" in assay(settings, "alerts", "look").stdout
    (row,) = assay_json(settings, "alerts")
    assert (row["rule"], row["subject"], row["word"], row["not_told"]) == ("gate_failed", GATE, "critical", "mail")
    shown = assay(settings, "alerts").stdout
    assert row["incident_id"] in shown and "NOBODY IS TOLD" not in shown and "\u001b" not in shown
    write(settings, VERDICTS, verdict_row(evaluated_at=NOW))
    assert "0 new, 1 over, 0 firing" in assay(settings, "alerts", "look").stdout
    assert assay_json(settings, "alerts") == []
    assert [row["word"] for row in assay_json(settings, "alerts", "--all")] == ["recovered"]


def test_each_rule_is_shown_with_its_threshold_and_the_file_in_which_it_is_set(settings):
    rows = {row["rule"]: row for row in assay_json(settings, "alerts", "rules")}
    assert rows["traffic_spike"]["set_in"] == "spark_jobs/spec/alerts_of_flow.py" and "3 ×" in rows["traffic_spike"]["threshold"]
    assert rows["freshness of gold.cloudtrail_first_seen"]["threshold"] == "1 d 4 h"


def test_a_test_message_says_what_arrived_where_and_leaves_no_trace(settings, monkeypatch):
    assert "No channel is configured" in assay(settings, "alerts", "test", exit_code=2).stderr
    mailbox, posts = Mailbox(), []
    with mail_server(mailbox) as port, web_server(posts) as url:
        told_by(monkeypatch, SMTP_PORT=port, ALERT_WEBHOOK=f"{url}/secret-path")
        said = assay(settings, "alerts", "test").stdout
        assert f"ops@example.org by the mail server 127.0.0.1:{port}" in said and "webhook at 127.0.0.1 (200)" in said
    assert "This is a test" in mailbox.take()[0].get_body(("plain",)).get_content() and len(posts) == 1
    failed = assay_json(settings, "alerts", "test", exit_code=1)  # both are gone
    assert set(failed) == {"mail", "webhook"} and "secret-path" not in json.dumps(failed)
    assert assay_json(settings, "alerts", "--all") == []


def test_an_incident_or_rule_is_silenced_for_a_while_and_who_did_it_is_kept(settings, monkeypatch):
    assay(settings, "alerts", "look")
    (row,) = assay_json(settings, "alerts")
    said = assay(settings, "alerts", "silence", row["incident_id"], "--for", "2h", "--note", "known", "--who", "ann").stdout
    assert f"gate_failed of {GATE}, until" in said
    assert "by ann" in assay_json(settings, "alerts")[0]["silenced"]
    assay(settings, "alerts", "silence", "audit_mismatch", "--for", "1d", "--who", "ann")
    known = {(one.rule, one.subject, one.who, one.note) for one in IncidentStore(settings, "cloudtrail").silences(NOW)}
    assert known == {("gate_failed", GATE, "ann", "known"), ("audit_mismatch", "", "ann", "")}
    mailbox = Mailbox()
    with mail_server(mailbox) as port:
        told_by(monkeypatch, SMTP_PORT=port)
        write(settings, AUDITS, {"pipeline": "cloudtrail", "table": "gold.x", "mode": "full", "is_equal": False, "audited_at": NOW})
        assert "1 new, 0 over, 2 firing." in assay(settings, "alerts", "look").stdout
    assert mailbox.take() == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["inc_0", "--for", "2h"], "no incident or rule 'inc_0'"),
        (["traffic", "--for", "2h"], "no incident or rule 'traffic'"),
        (["traffic_spike", "--for", "2 hours"], "not a length"),
        (["traffic_spike", "--for", "60d"], "not a length"),
        (["traffic_spike", "--for", "0h"], "not a length"),
    ],
)
def test_what_cannot_be_silenced_is_one_sentence(settings, words, said):
    assert said in assay(settings, "alerts", "silence", *words, exit_code=2).stderr
