"""Notices on their way: one message for one look, safe whatever the data says, kept when a server is away, sent by one of many."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr

from spark_jobs.io.channels import Undelivered, channels, send_mail
from spark_jobs.io.incident_store import IncidentStore
from spark_jobs.io.ops import Ops
from spark_jobs.jobs import watch
from spark_jobs.jobs.watch import look
from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE
from spark_jobs.report.notice import compose, masked
from spark_jobs.spec.alerts import AuditMismatch, GateFailed, QueryFailed
from spark_jobs.spec.errors import ConfigurationFault, LeaseLost
from spark_jobs.spec.incidents import Incident
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import AUDITS, BOOKS, INCIDENTS, QUERY_EVENTS, VERDICTS
from tests.builders.ops_rows import SILVER, books_row, environment, failed_verdict, small_settings, write
from tests.builders.receivers import Mailbox, free_port, mail_server, web_server
from tests.builders.stack import PROJECT

NOW = datetime.now(UTC).replace(microsecond=0)
S, MIN, H = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
PASSWORD, PATH = "s3cret-pass", "services/T000/B000/very-secret"
NASTY = 'Run<script>alert(1)</script> <!channel> [click](http://evil) \u202e "O\'Brien 4711"\r\nBcc: all@example.org'


@pytest.fixture
def receivers(tmp_path):
    mailbox, posts = Mailbox(), []
    with ExitStack() as stack:
        port, url = stack.enter_context(mail_server(mailbox)), stack.enter_context(web_server(posts))
        settings = told(small_settings(tmp_path), port, f"{url}/{PATH}")
        yield settings, mailbox, posts


def told(settings, port, url="", **how):
    mail = {"smtp_host": "127.0.0.1", "smtp_port": port, "smtp_starttls": False, "alert_to": "ops@example.org, on-call@example.org"}
    return settings.model_copy(update=mail | {"alert_webhook": SecretStr(url), "smtp_password": SecretStr(PASSWORD)} | how)


def fails(settings, error="StorageFault: The disk is full.", table=str(SILVER), ago=MIN):
    row = {"pipeline": "cloudtrail", "table": table, "run_id": "r", "event": "terminated", "error": error, "at": NOW - ago}
    write(settings, QUERY_EVENTS, row)


def audit(settings, **changes):
    row = {"audit_id": "a", "pipeline": "cloudtrail", "table": "gold.cloudtrail_activity_1h", "mode": "sample", "is_equal": False}
    write(settings, AUDITS, row | {"sentence": "1 of 20 cells differs.", "audited_at": NOW - MIN} | changes)


def incident(**changes):
    return replace(
        Incident("inc_0123456789ab", "cloudtrail", "query_failed", str(SILVER), "firing", "critical", "It broke.", NOW, NOW), **changes
    )


def shown(mail):
    return mail.get_body(("plain",)).get_content(), mail.get_body(("html",)).get_content()


def some_rules(*rules):
    return replace(PIPELINE, alerts=rules)


def test_all_changes_of_one_look_are_one_message_whose_subject_says_the_worst(receivers):
    settings, mailbox, posts = receivers
    write(settings, VERDICTS, failed_verdict(outcome="hold", evaluated_at=NOW - H))
    write(settings, BOOKS, books_row(SILVER, written=0, held=4, finished_at=NOW - H))
    fails(settings)
    audit(settings)
    done = look(settings, PIPELINE, NOW)
    (mail,) = mailbox.take()
    assert mail["Subject"].strip() == "[assay cloudtrail] CRITICAL: query failed, silver.cloudtrail_events, and 2 more"
    assert mail["To"] == "ops@example.org, on-call@example.org" and set(mailbox.receivers) == {"ops@example.org", "on-call@example.org"}
    plain, html = shown(mail)
    for one in done.changed:
        assert all(one.incident_id in text and one.subject in text for text in (plain, html, json.dumps(posts)))
    assert "The disk is full." in plain and len(posts) == 1
    audit(settings, mode="full", is_equal=True, audited_at=NOW)
    look(settings, PIPELINE, NOW + S)
    assert mailbox.take()[0]["Subject"].strip() == "[assay cloudtrail] RECOVERED: audit mismatch, gold.cloudtrail_activity_1h"


@pytest.mark.parametrize("form", ["slack", "teams", "json"])
def test_data_cannot_become_a_header_markup_a_mention_or_a_link(receivers, form):
    settings, mailbox, posts = receivers
    settings = settings.model_copy(update={"alert_webhook_form": form})
    notice = compose("cloudtrail", [incident(subject=NASTY, sentence=NASTY)], form=form)
    for send in channels(settings).values():
        send(notice)
    (mail,), (posted,) = mailbox.take(), posts
    assert mail["Bcc"] is None and "\n" not in mail["Subject"] and "all@example.org" not in mailbox.receivers
    plain, html = shown(mail)
    assert "<script>" not in html and "&lt;script&gt;" in html and "\u202e" not in plain + html + str(posted)
    if form == "slack":
        assert all(block["text"]["type"] == "plain_text" for block in posted["blocks"]) and "<" not in posted["text"]
    elif form == "teams":
        texts = [block["text"] for block in posted["attachments"][0]["content"]["body"]]
        assert not any("[click](" in text for text in texts) and any(r"\[click\]\(" in text for text in texts)
    else:
        assert posted["incidents"][0]["incident_id"] == "inc_0123456789ab"


def test_values_in_the_texts_of_other_programs_are_masked_and_our_own_sentences_are_not(receivers):
    settings, mailbox, _ = receivers
    fails(settings, "SparkException: The value 'arn:aws:iam::4711:user/mallory' of \"principal\" cannot be cast")
    fails(settings, "StorageFault: The folder '/lake' is full.", table="bronze.cloudtrail_records")
    look(settings, some_rules(QueryFailed()), NOW)
    plain, html = shown(mailbox.take()[0])
    assert "mallory" not in plain + html and "4711" not in plain + html and "xxx:xxx:xxx::0000:xxxx/xxxxxxx" in plain
    assert "The folder '/lake' is full." in plain
    assert masked("it's so") == "it's so"


def test_a_mail_server_that_is_away_is_told_when_it_is_back_and_the_webhook_meanwhile(tmp_path):
    mailbox, posts, port = Mailbox(), [], free_port()
    with web_server(posts) as url:
        settings = told(small_settings(tmp_path), port, url)
        fails(settings)
        away = look(settings, PIPELINE, NOW)
        assert f"127.0.0.1:{port}" in away.undelivered[0] and "sent again at the next look" in away.sentence and len(posts) == 1
        assert IncidentStore(settings, "cloudtrail").untold(away.changed[0]) == ["mail"]
        with mail_server(mailbox, port=port):
            assert look(settings, PIPELINE, NOW + S).undelivered == []
            assert look(settings, PIPELINE, NOW + 2 * S).sent == []
    assert len(mailbox.take()) == 1 and len(posts) == 1


def test_a_busy_server_is_asked_again_at_once_and_one_that_refuses_is_not(receivers):
    settings, mailbox, posts = receivers
    notice = compose("cloudtrail", [incident()], form="json")
    mailbox.refuse = ["451 busy"]
    assert "by the mail server" in send_mail(settings, notice) and len(mailbox.take()) == 1
    mailbox.refuse = ["554 no", "554 no"]
    with pytest.raises(Undelivered, match="554"):
        send_mail(settings, notice)
    assert len(mailbox.refuse) == 1
    for answers, is_taken in (([503, 429], True), ([404], False), ([302], False)):
        posts.clear()
        with web_server(posts, answers) as url:
            post = channels(told(settings, 1, f"{url}/{PATH}"))["webhook"]
            if is_taken:
                assert "(200)" in post(notice)
            else:
                with pytest.raises(Undelivered, match="it answered"):
                    post(notice)
        assert bool(posts) == is_taken


def test_mail_goes_over_tls_with_a_password_from_its_file(tmp_path, monkeypatch):
    certificate, context = own_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    mailbox, notice = Mailbox(), compose("cloudtrail", [incident()], form="json")
    with mail_server(mailbox, password=PASSWORD, tls_context=context, require_starttls=True) as port:
        secure = {"smtp_starttls": True, "smtp_user": "assay", "smtp_host": "localhost"}
        settings = told(small_settings(tmp_path), port, **secure, smtp_password_file=tmp_path / "password")
        assert "localhost" in send_mail(settings, notice)
        (tmp_path / "password").write_text("wrong")
        with pytest.raises(Undelivered, match="SMTPAuthenticationError") as refused:
            send_mail(settings, notice)
        monkeypatch.delenv("SSL_CERT_FILE")
        with pytest.raises(Undelivered, match="certificate"):  # nobody vouches for it
            send_mail(settings, notice)
    assert len(mailbox.take()) == 1 and PASSWORD not in str(refused.value)


def own_certificate(folder):
    import ssl

    files = [str(folder / "key.pem"), str(folder / "cert.pem")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subject = ["-addext", "subjectAltName=DNS:localhost", "-keyout", files[0], "-out", files[1]]
    subprocess.run([*command, *subject], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files[1], files[0])
    return files[1], context


def test_of_many_watchers_at_once_one_tells(receivers):
    settings, mailbox, posts = receivers
    fails(settings)
    audit(settings)
    watchers = [threading.Thread(target=look, args=(settings, PIPELINE, NOW + number * S)) for number in range(4)]
    for watcher in watchers:
        watcher.start()
    for watcher in watchers:
        watcher.join()
    assert len(mailbox.take()) == 1 and len(posts) == 1
    states = Ops(settings).read(INCIDENTS, ["incident_id", "state"]).to_pylist()
    assert sorted(row["state"] for row in states) == ["firing", "firing", *["told firing"] * 4]


KILLED = """
import os, signal
from spark_jobs.io.incident_store import IncidentStore
step = getattr(IncidentStore, {step!r})
def killed(*args, **how):
    {before}
    os.kill(os.getpid(), signal.SIGKILL)
IncidentStore.{step} = killed
from spark_jobs.jobs.run import run_job
from spark_jobs.jobs.watch import _work
run_job("watch", _work)
"""


@pytest.mark.parametrize(
    ("step", "before", "mails"),
    [("enter", "pass", 1), ("enter", "step(*args, **how)", 1), ("mark_told", "pass", 2), ("mark_told", "step(*args, **how)", 1)],
)
def test_a_look_that_is_killed_tells_at_least_once_and_at_most_once_more(tmp_path, step, before, mails):
    """Twice only when it died between the server's answer and its own note of it: the two have one message id and name one incident."""
    mailbox = Mailbox()
    with mail_server(mailbox) as port:
        settings = told(small_settings(tmp_path), port)
        fails(settings)
        env = os.environ | environment(settings) | {
            "ASSAY_SMTP_HOST": "127.0.0.1", "ASSAY_SMTP_PORT": str(port), "ASSAY_SMTP_STARTTLS": "false",
            "ASSAY_ALERT_TO": settings.alert_to, "ASSAY_SMTP_PASSWORD": PASSWORD, "PYTHONPATH": str(PROJECT),
        }  # fmt: skip
        command = [sys.executable, "-c", KILLED.format(step=step, before=before), "--pipeline", "cloudtrail"]
        killed = subprocess.run(command, env=env, cwd=PROJECT, capture_output=True, text=True, timeout=120)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        look(settings, PIPELINE, NOW + MIN)
        look(settings, PIPELINE, NOW + 2 * MIN)
    came = mailbox.take()
    assert len(came) == mails and len({mail["Message-ID"] for mail in came}) == 1
    states = [row["state"] for row in Ops(settings).read(INCIDENTS, ["state"]).to_pylist()]
    assert sorted(states) == ["firing", "told firing"]


def test_a_look_that_was_frozen_and_overtaken_tells_nothing(receivers, monkeypatch):
    """It wakes up with what it had read before; the other one has told all of it."""
    settings, mailbox, _ = receivers
    settings = settings.model_copy(update={"lease_ttl_s": 0})
    fails(settings)
    as_it_is, frozen = watch.judge, []

    def judge(*facts):
        if not frozen:
            frozen.append(True)
            look(settings, PIPELINE, NOW + S)
        return as_it_is(*facts)

    monkeypatch.setattr(watch, "judge", judge)
    with pytest.raises(LeaseLost):
        look(settings, PIPELINE, NOW)
    assert frozen and len(mailbox.take()) == 1


def test_what_is_silenced_is_recorded_and_its_recovery_told_and_what_lasts_longer_is_told_then(receivers):
    settings, mailbox, _ = receivers
    store, rules = IncidentStore(settings, "cloudtrail"), some_rules(GateFailed(), AuditMismatch())
    store.silence("audit_mismatch", "", until=NOW + 2 * H, who="ann", note="migration", now=NOW)
    store.silence("gate_failed", f"{SILVER} v1-00000000", until=NOW + 2 * H, who="ann", note="", now=NOW)
    write(settings, VERDICTS, failed_verdict(evaluated_at=NOW), failed_verdict(batch_id="v1-00000001", evaluated_at=NOW))
    audit(settings)
    assert len(look(settings, rules, NOW + S).changed) == 3
    plain, _ = shown(mailbox.take()[0])
    assert f"{SILVER} v1-00000001," in plain and f"{SILVER} v1-00000000," not in plain and "cells" not in plain
    audit(settings, mode="full", is_equal=True, audited_at=NOW + H)
    look(settings, rules, NOW + H + S)
    assert "RECOVERED: audit mismatch" in mailbox.take()[0]["Subject"]
    look(settings, rules, NOW + 2 * H)
    assert [mail["Subject"].strip() for mail in mailbox.take()] == [
        "[assay cloudtrail] CRITICAL: gate failed, silver.cloudtrail_events v1-00000000"
    ]
    assert look(settings, rules, NOW + 3 * H).sent == []


def test_no_channel_is_no_queue_and_a_channel_that_comes_later_starts_with_what_comes_then(tmp_path):
    settings, mailbox = small_settings(tmp_path), Mailbox()
    fails(settings)
    assert look(settings, some_rules(QueryFailed()), NOW).sent == []
    with mail_server(mailbox) as port:
        look(told(settings, port), some_rules(QueryFailed(), AuditMismatch()), NOW + S)
        audit(settings)
        look(told(settings, port), some_rules(QueryFailed(), AuditMismatch()), NOW + 2 * S)
    assert [mail["Subject"].split(": ")[1] for mail in mailbox.take()] == ["audit mismatch, gold.cloudtrail_activity_1h"]


def test_a_lake_that_cannot_be_read_or_written_is_told_without_it_and_so_is_its_end(receivers):
    settings, mailbox, _ = receivers
    lake = settings.home / "lake"
    lake.write_text("no folder")
    for later in (0 * S, 5 * MIN, 61 * MIN):
        with pytest.raises(OSError, match="lake"):
            look(settings, PIPELINE, NOW + later)
    told_of = [mail["Subject"].strip() for mail in mailbox.take()]
    assert told_of == ["[assay cloudtrail] CRITICAL: watch blind, lake"] * 2, "once an hour"
    lake.unlink()
    look(settings, PIPELINE, NOW + 2 * H)
    look(settings, PIPELINE, NOW + 3 * H)
    assert [mail["Subject"].strip() for mail in mailbox.take()] == ["[assay cloudtrail] RECOVERED: watch blind, lake"]


def test_neither_password_nor_webhook_is_in_any_output_or_table(tmp_path):
    """Nothing answers: every text that speaks of the failure is searched."""
    settings = told(small_settings(tmp_path), free_port(), f"http://127.0.0.1:{free_port()}/{PATH}?token={PASSWORD}", smtp_user="assay")
    fails(settings)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        done = look(settings, PIPELINE, NOW)
    rows = str(Ops(settings).read(INCIDENTS).to_pylist())
    texts = [out.getvalue(), err.getvalue(), done.sentence, str(done), rows, repr(settings), settings.model_dump_json()]
    assert len(done.undelivered) == 2
    for secret in (PASSWORD, PATH, "very-secret"):
        assert not any(secret in text for text in texts)


def test_a_webhook_that_is_no_url_is_refused_without_showing_it(monkeypatch):
    monkeypatch.setenv("ASSAY_ALERT_WEBHOOK", f"ftp://{PATH}")
    with pytest.raises(ConfigurationFault, match="ASSAY_ALERT_WEBHOOK") as refused:
        load_settings()
    assert PATH not in str(refused.value)
