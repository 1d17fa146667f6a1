"""Each rule of alerts, driven into firing and recovering by real tables, through a real mail server and a real webhook.

Each tells once that it fires and once that it is over, however often somebody looks.
"""

import json
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from spark_jobs.io.lease import Lease
from spark_jobs.io.ops import Ops
from spark_jobs.jobs.recent_books import _kept, recent_books
from spark_jobs.jobs.watch import look
from spark_jobs.jobs.watch_facts import FactsReader
from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE
from spark_jobs.spec.alerts import DEFAULT_ALERTS, DiskNearlyFull, QueryFailed
from spark_jobs.spec.tables import AMENDMENTS, AUDITS, BOOKS, DECISIONS, FILES, PROGRESS, QUERY_EVENTS, VERDICTS
from tests.builders.ops_rows import ACTIVITY, BRONZE, SILVER, books_row, failed_verdict, file_row, record, small_settings, write
from tests.builders.receivers import Mailbox, mail_server, web_server

NOW = datetime.now(UTC).replace(microsecond=0)
S, MIN, H, D = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture(scope="module")
def receivers():
    mailbox, posts = Mailbox(), []
    with ExitStack() as stack:
        yield mailbox, posts, stack.enter_context(mail_server(mailbox)), stack.enter_context(web_server(posts))


@pytest.fixture
def scene(tmp_path, receivers):
    mailbox, posts, port, url = receivers
    told_by = {
        "smtp_host": "127.0.0.1",
        "smtp_port": port,
        "smtp_starttls": False,
        "alert_to": "ops@example.org",
        "alert_webhook": f"{url}/x",
    }
    mailbox.take(), posts.clear()
    return Scene(small_settings(tmp_path).model_copy(update=told_by | {"alert_webhook": _secret(told_by)}), mailbox, posts)


def _secret(told_by):
    from pydantic import SecretStr

    return SecretStr(told_by["alert_webhook"])


class Scene:
    def __init__(self, settings, mailbox, posts):
        self.settings, self.mailbox, self.posts = settings, mailbox, posts

    def look(self, rule, now=NOW):
        """One look with this rule alone, as in a process of its own; what was told: the mails' subjects, which the webhook has too."""
        _kept.clear()
        found = look(self.settings, replace(PIPELINE, alerts=(rule,)), now)
        subjects = [mail["Subject"].strip() for mail in self.mailbox.take()]
        assert len(self.posts) == len(subjects) and found.undelivered == []
        self.posts.clear()
        return subjects


def event(settings, kind, ago, table=str(SILVER), error=None):
    row = {"pipeline": "cloudtrail", "table": table, "run_id": "r", "event": kind, "error": error, "host": "h", "pid": 1, "at": NOW - ago}
    write(settings, QUERY_EVENTS, row)


def say_failure(settings, **changes):
    record = {"at": NOW.isoformat(), "dag_id": "cloudtrail_hourly", "run_id": "r", "task_id": "build_silver", "sentence": "It broke."}
    settings.home.mkdir(exist_ok=True)
    with (settings.home / "failures.jsonl").open("a") as lines:
        lines.write(json.dumps(record | changes) + "\n")


def progress_row(ago, **changes):
    """Every minute 12 kB come and 6 kB are taken, which takes the whole minute."""
    minutes = ago / MIN
    return {
        "pipeline": "cloudtrail", "table": str(SILVER), "run_id": "r", "batch_id": "1", "batch_bytes": 6000, "duration_ms": 60_000,
        "lag_files": 5, "lag_bytes": 10**6 - int(6000 * minutes), "lag_minutes": 30.0 - minutes, "at": NOW - ago,
    } | changes  # fmt: skip


def audit_row(**changes):
    return {
        "audit_id": "a", "pipeline": "cloudtrail", "table": str(ACTIVITY), "run_id": "r", "mode": "sample", "is_equal": False,
        "sentence": "gold.cloudtrail_activity_1h: 1 of 20 cells differs.", "audited_at": NOW - MIN,
    } | changes  # fmt: skip


def amendment(events):
    return {
        "pipeline": "cloudtrail", "table": str(ACTIVITY), "window_start": NOW - 30 * H, "key": "{}", "events": events, "brought_by": "live",
        "batch_id": "v1-00000001", "amended_at": NOW - MIN,
    }  # fmt: skip


def query_fails(scene):
    event(scene.settings, "started", 10 * MIN)
    event(scene.settings, "terminated", MIN, error="StorageFault: The disk is full.")


def query_works(scene):
    event(scene.settings, "restarted", 50 * S)
    write(scene.settings, BOOKS, books_row(SILVER, finished_at=NOW - 20 * S))


def crash_loops(scene):
    for number in range(5):
        event(scene.settings, "terminated", (9 - number) * MIN, error="OSError: no route")


def gate_holds(scene):
    write(scene.settings, VERDICTS, failed_verdict(evaluated_at=NOW - MIN))


def gate_is_decided(scene):
    batch = {"table": str(SILVER), "batch_id": "v1-00000000"}
    write(scene.settings, DECISIONS, batch | {"decision_id": "d", "pipeline": "cloudtrail", "decision": "release", "decided_at": NOW})
    write(scene.settings, BOOKS, books_row(SILVER, decision="release", finished_at=NOW))


def books_break(scene):
    write(scene.settings, BOOKS, books_row(SILVER, read=5, written=4, finished_at=NOW - MIN))


def books_are_written_again(scene):
    row = books_row(SILVER, read=4, written=4, finished_at=NOW)
    Ops(scene.settings).replace_batch(BOOKS, of=SILVER, batch_id=row["batch_id"], rows=[row])


def lease_is_taken(scene):
    impatient = scene.settings.model_copy(update={"lease_ttl_s": 0})
    Lease(impatient, SILVER, "run one").take()
    scene.after = Lease(impatient, SILVER, "run two")
    scene.after.take()


def files_land(scene, *, last):
    for hours in range(20):
        write(scene.settings, FILES, file_row(scene.settings, f"{hours}.gz", listed_at=NOW - last - hours * H))


def records_spike(scene):
    rows = [books_row(BRONZE, read=500, written=500, batch_id=f"v1-{day}", finished_at=NOW - day * D - 30 * MIN) for day in range(1, 6)]
    write(scene.settings, BOOKS, *rows, books_row(BRONZE, read=9000, written=9000, batch_id="v1-9", finished_at=NOW - 30 * MIN))


def quarantine_grows(scene):
    bad = {"rule": "event_time_unparseable", "reason": "eventTime is no time.", "_ingested_at": NOW - MIN}
    rows = [record(scene.settings, "a.gz", number, SILVER.side("quarantine"), **bad) for number in range(9)]
    write(scene.settings, SILVER.side("quarantine"), *rows)


def silver_waits(scene):
    write(scene.settings, BOOKS, books_row(BRONZE, target_version=1, finished_at=NOW - 3 * H))


def silver_has_caught_up(scene):
    write(scene.settings, BOOKS, books_row(SILVER, source_version=1, written=0, read=0, finished_at=NOW))


def nothing(scene):
    pass


@pytest.mark.parametrize(
    ("rule", "breaks", "mends", "later", "says"),
    [
        ("query_failed", query_fails, query_works, S, "CRITICAL: query failed, silver.cloudtrail_events"),
        ("query_failed", query_fails, lambda scene: event(scene.settings, "restarted", 50 * S), 10 * MIN, "query failed"),
        ("crash_loop", crash_loops, query_works, S, "CRITICAL: crash loop, silver.cloudtrail_events"),
        (
            "task_failed", lambda scene: say_failure(scene.settings),
            lambda scene: say_failure(scene.settings, kind="succeeded", task_id=None, at=(NOW + S).isoformat()), S,
            "CRITICAL: task failed, cloudtrail_hourly.build_silver",
        ),
        ("gate_failed", gate_holds, gate_is_decided, S, "CRITICAL: gate failed, silver.cloudtrail_events v1-00000000"),
        (
            "audit_mismatch", lambda scene: write(scene.settings, AUDITS, audit_row()),
            lambda scene: write(scene.settings, AUDITS, audit_row(mode="full", is_equal=True, audited_at=NOW)), S, "audit mismatch",
        ),
        ("books_unbalanced", books_break, books_are_written_again, S, "CRITICAL: books unbalanced"),
        ("lease_taken_over", lease_is_taken, lambda scene: scene.after.release(), S, "WARNING: lease taken over, run one"),
        (
            "deadline_missed", lambda scene: say_failure(scene.settings, kind="deadline", task_id=None),
            lambda scene: say_failure(scene.settings, kind="succeeded", task_id=None, at=(NOW + S).isoformat()), S,
            "WARNING: deadline missed, cloudtrail_hourly",
        ),
        ("freshness_missed", silver_waits, silver_has_caught_up, S, "CRITICAL: freshness missed, silver.cloudtrail_events"),
        (
            "falling_behind",
            lambda scene: write(scene.settings, PROGRESS, *[progress_row(ago * MIN) for ago in range(1, 7)]),
            lambda scene: write(scene.settings, PROGRESS, progress_row(0 * S, lag_minutes=0.0, lag_bytes=0)), S, "falling behind",
        ),
        ("source_silent", lambda scene: files_land(scene, last=2 * H),
         lambda scene: write(scene.settings, FILES, file_row(scene.settings, "z.gz", listed_at=NOW)), S, "WARNING: source silent"),
        ("traffic_spike", records_spike, nothing, 2 * H, "WARNING: traffic spike"),
        ("late_flood", lambda scene: write(scene.settings, AMENDMENTS, amendment(100)), nothing, 2 * H, "WARNING: late flood"),
        ("quarantine_growing", quarantine_grows, nothing, 2 * D, "WARNING: quarantine growing, silver.cloudtrail_events"),
    ],
)  # fmt: skip
def test_tells_once_that_it_fires_and_once_that_it_is_over(scene, rule, breaks, mends, later, says):
    judged = next(one for one in DEFAULT_ALERTS if one.name == rule)
    assert scene.look(judged) == []
    breaks(scene)
    told = scene.look(judged)
    assert len(told) == 1 and says in told[0]
    assert scene.look(judged, NOW + later / 100) == []
    mends(scene)
    assert [subject.split(": ")[0] for subject in scene.look(judged, NOW + later)] == ["[assay cloudtrail] RECOVERED"]
    assert scene.look(judged, NOW + later + S) == []


def test_a_writer_that_is_overtaken_in_its_turn_ends_the_first_takeover_and_begins_another(scene):
    lease_is_taken(scene)
    Lease(scene.settings.model_copy(update={"lease_ttl_s": 0}), SILVER, "run three").take()
    found = FactsReader(scene.settings, PIPELINE, NOW).takeovers()
    assert [(one.before.split(" (")[0], one.after.split(" (")[0], one.done_at is None) for one in found] == [
        ("run one", "run two", False),
        ("run two", "run three", True),
    ]


def test_the_books_are_read_once_and_then_only_what_is_new(scene):
    """What a driver keeps from look to look is what a new process reads: also of a batch that was booked again, and of what is past."""

    def recent(now):
        rows = recent_books(scene.settings, PIPELINE, now, D).select(["batch_id", "written", "finished_at"]).to_pylist()
        return sorted(rows, key=lambda row: row["batch_id"])

    write(scene.settings, BOOKS, *[books_row(SILVER, batch_id=f"v1-{n}", finished_at=NOW - D + n * MIN) for n in range(4)])
    for minute in range(4):
        now = NOW + minute * MIN + S
        write(scene.settings, BOOKS, books_row(SILVER, batch_id=f"v2-{minute}", finished_at=now))
        again = books_row(SILVER, batch_id="v1-3", written=minute, finished_at=now)
        Ops(scene.settings).replace_batch(BOOKS, of=SILVER, batch_id="v1-3", rows=[again])
        whole = Ops(scene.settings).read(BOOKS, ["batch_id", "written", "finished_at"], since={"finished_at": now - D}).to_pylist()
        assert recent(now) == sorted(whole, key=lambda row: row["batch_id"])
    assert [row["batch_id"] for row in whole if row["batch_id"].startswith("v1")] == ["v1-3"], "what is past is gone"


def test_a_disk_is_nearly_full_until_there_is_room_again(scene):
    full, roomy = DiskNearlyFull(least=10**18), DiskNearlyFull(least=1, share=0.0)
    assert "CRITICAL: disk nearly full" in scene.look(full)[0]
    assert scene.look(full, NOW + S) == []
    assert "RECOVERED" in scene.look(roomy, NOW + MIN)[0]


def test_a_failure_that_healed_between_two_looks_is_told_once(scene):
    query_fails(scene)
    query_works(scene)
    rule = next(one for one in DEFAULT_ALERTS if one.name == "query_failed")
    assert [subject.split(": ")[0] for subject in scene.look(rule)] == ["[assay cloudtrail] RECOVERED"]
    assert scene.look(rule, NOW + S) == []


def driver(scene, kind, ago, pid, error=None, table=""):
    row = {"pipeline": "cloudtrail", "table": table, "run_id": f"r{pid}", "event": kind, "error": error, "host": "h", "pid": pid}
    write(scene.settings, QUERY_EVENTS, row | {"at": NOW - ago})


def failures(scene):
    signs = QueryFailed().signs(FactsReader(scene.settings, PIPELINE, NOW).query_marks(), NOW)
    return [(sign.subject, sign.ended_at is not None, sign.sentence.split(": ", 1)[1]) for sign in signs]


def test_a_driver_that_was_killed_without_a_word_is_a_failure_and_a_relay_is_none(scene):
    driver(scene, "started", 9 * H, 1)
    driver(scene, "handed_over", 8 * H, 1)
    driver(scene, "terminated", 8 * H, 1)
    driver(scene, "started", 8 * H, 2)
    assert failures(scene) == []
    driver(scene, "started", 7 * H, 3)  # number 2 never said that it ended
    assert failures(scene) == [("the driver of cloudtrail", True, "it ended without a word (killed, or its machine went down).")]


def test_a_query_takes_its_driver_with_it_and_that_is_one_failure(scene):
    driver(scene, "terminated", 61 * S, 1, "SparkException: 'secret' is bad", str(PIPELINE.gold_stream))
    driver(scene, "terminated", 60 * S, 1, "SparkException: 'secret' is bad")
    assert failures(scene) == [("gold.cloudtrail", False, "SparkException: 'xxxxxx' is bad")]
    write(scene.settings, BOOKS, books_row(SILVER, finished_at=NOW - 30 * S))
    assert failures(scene)[0][1] is False, "silver's work says nothing of gold"
    write(scene.settings, BOOKS, books_row(ACTIVITY, finished_at=NOW - 20 * S))
    assert failures(scene)[0][1] is True
    driver(scene, "terminated", 10 * S, 2, "StorageFault: The disk is full.")
    assert failures(scene)[1] == ("the driver of cloudtrail", False, "The disk is full.")


def test_a_rule_that_cannot_be_judged_is_told_and_hinders_no_other(scene):
    """A damaged table of audits: the other rules see what they see."""
    write(scene.settings, AUDITS, audit_row())
    query_fails(scene)
    for log in (scene.settings.home / "lake/_ops/audits/_delta_log").iterdir():
        log.write_text("no json")
    found = look(scene.settings, PIPELINE, NOW)
    assert {(one.rule, one.subject) for one in found.changed} >= {("rule_blind", "audit_mismatch"), ("query_failed", str(SILVER))}
