"""Quarantine read again by a mended parser: each record ends in one place, running it twice changes nothing, and people's words count."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from spark_jobs.io.lake import lake_table
from spark_jobs.io.parked import due_rids
from spark_jobs.jobs import replay_commit
from spark_jobs.jobs.discover import _work as discover_work
from spark_jobs.jobs.run import Run
from spark_jobs.report.balance import balance
from spark_jobs.spec.errors import ConfigurationFault, GateStopped
from spark_jobs.spec.tables import DECISIONS, DISMISSALS, SIDES
from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.assay_command import assay, assay_json
from tests.builders.ended_at import ended_at
from tests.builders.events import event, event_text
from tests.builders.misread import SILVER, fill_with_a_broken_parser, land, replay_chosen
from tests.builders.stack import Stack
from tests.builders.stricter import demand, with_policy


def test_a_mended_parser_recovers_each_record_once_and_a_second_replay_changes_nothing(stack, monkeypatch):
    fill_with_a_broken_parser(stack, monkeypatch)
    before = assert_every_record_accounted_for(stack, waiting=["gold"])
    assert (before.silver, before.quarantined, before.duplicate) == (4, 6, 0)
    assert {group["rule"]: group["count"] for group in _list(stack)} == {"event_time_unparseable": 5, "missing_event_id": 1}

    done = replay_chosen(stack, rule="event_time_unparseable")
    assert (done.recovered, done.still_bad, done.duplicate) == (1, 1, 3)
    accounted = assert_every_record_accounted_for(stack, waiting=["gold"])
    assert (accounted.silver, accounted.quarantined, accounted.duplicate) == (5, 2, 3)
    assert stack.run("gold") is None
    accounted = assert_every_record_accounted_for(stack)
    conflicting = {row["kept_rid"].split(":")[1]: row["is_conflicting"] for row in stack.rows(f"{SILVER}_duplicates")}
    assert len(stack.rows(f"{SILVER}_duplicates")) == 3 and True in conflicting.values()
    rules = {row["rule"]: row["raw"] for row in stack.rows(f"{SILVER}_quarantine")}
    assert set(rules) == {"missing_event_name", "missing_event_id"}  # today's rule, no longer that of the parser of then
    [books] = [row for row in stack.rows("_ops.books") if row["batch_id"] == "replay-00000001"]
    assert (books["read"], books["written"], books["quarantined"], books["duplicate"]) == (5, 1, 1, 3)
    found = balance(stack.settings, count_rows=True)
    assert found["is_balanced"], found["sentence"]
    [total] = [row for row in found["totals"] if row["table"] == str(SILVER)]
    assert (total["read"], total["written"], total["quarantined"], total["duplicate"]) == (10, 5, 2, 3)
    [way] = assay_json(_command(stack), "where", event(5)["eventID"], "--json")[:1]
    assert way["ends"] == "published" and "replay-00000001" in str(way["steps"])

    versions = _versions(stack)
    assert (replay_chosen(stack, rule="event_time_unparseable").recovered, replay_chosen(stack).still_bad) == (0, 2)
    assert _versions(stack) == versions and stack.run() is None
    assert assert_every_record_accounted_for(stack) == accounted


def test_what_is_recovered_passes_the_gate_or_nothing_is_committed_and_rejected_rows_wait_to_be_named(stack, monkeypatch):
    fill_with_a_broken_parser(stack, monkeypatch)
    land(stack, "odd", *[event_text(number, recipientAccountId="not-an-account") for number in (30, 31)])
    assert stack.run("bronze", "silver") is None
    decision = {"decision_id": "d", "decision": "reject", "who": "ana", "note": "", "decided_at": stack.clock()}
    stack.ops.append(DECISIONS, [decision | {"pipeline": "cloudtrail", "table": str(SILVER), "batch_id": "v1-00000001"}])
    assert stack.run("silver") is None
    before, versions = assert_every_record_accounted_for(stack, waiting=["gold"]), _versions(stack)
    assert before.quarantined == 8

    with monkeypatch.context() as stricter:
        demand(stricter, "silver", "event_time < timestamp'2024-05-01 12:30:15.5Z'", ["event_time"])
        declared, stack.pipeline = stack.pipeline, with_policy(stack.pipeline, "silver", "hold")
        with pytest.raises(GateStopped, match="Nothing was committed, its records stay where they are"):
            replay_chosen(stack)
        stack.pipeline = declared
    assert _versions(stack) == versions and assert_every_record_accounted_for(stack, waiting=["gold"]) == before
    assert assay_json(_command(stack), "held", "list") == []  # it is replayed again, not released

    assert replay_chosen(stack).recovered == 1
    with pytest.raises(GateStopped, match="account_id is 12 digits"):
        replay_chosen(stack, rule="rejected")  # a person may ask for them by name, the gate still judges
    with pytest.raises(ConfigurationFault, match="deliver it again"):
        replay_chosen(stack, table=stack.pipeline.bronze_table)


def test_an_event_ahead_of_its_time_is_parked_enters_once_when_it_has_come_and_never_if_a_person_rejected_it(stack):
    arrived = datetime.now(UTC).replace(microsecond=0)
    stack.clock = lambda: arrived
    land(stack, "wrong_clock", event_text(1), event_text(2, eventTime=f"{arrived + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}"))
    assert stack.run() is None
    [parked] = _list(stack)
    assert parked["state"] == "parked" and parked["due_at"].startswith(f"{arrived + timedelta(days=1):%Y-%m-%dT%H:%M:%S}")
    assert "parked until" in assay(_command(stack), "where", event(2)["eventID"]).stdout
    assert "they will not enter" in assay(_command(stack), "quarantine", "dismiss", parked["fingerprint"], "--who", "ana").stdout
    assert _list(stack) == [] and len(stack.rows(str(DISMISSALS))) == 1

    later = arrived + timedelta(minutes=5)
    stack.clock = lambda: later
    land(stack, "again", event_text(3), event_text(4, eventTime=f"{later + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}"))
    assert stack.run() is None
    assert [(group["state"], group["new_count"]) for group in _list(stack)] == [("parked", 1)]
    accounted = assert_every_record_accounted_for(stack)
    assert (accounted.silver, accounted.quarantined) == (2, 2)
    assert due_rids(stack.settings, stack.pipeline, later) == [] and not _discovered(stack)["has_work"]

    stack.clock = lambda: later + timedelta(days=1, seconds=1)
    found = _discovered(stack)
    assert found["has_work"] and "To do: silver" in found["sentence"] and "1 parked event has come" in found["sentence"]
    assert stack.run() is None
    accounted = assert_every_record_accounted_for(stack)
    assert (accounted.silver, accounted.quarantined) == (3, 1)
    counted = [row for row in stack.rows("gold.cloudtrail_activity_1h") if row["window_start"] > later]
    assert [row["event_count"] for row in counted] == [1]
    versions = _versions(stack)
    assert not _discovered(stack)["has_work"] and stack.run() is None and _versions(stack) == versions
    assert "rejected by a person" in assay(_command(stack), "where", event(2)["eventID"]).stdout


STEPS = (
    ("_tell_intent", "after", 1), ("replace_batch_rows", "after", 1), ("append_once", "after", 1), ("write_books", "after", 1),
    ("take_out", "after", 1), ("take_out", "after", 2),
)  # fmt: skip


def test_a_replay_killed_at_any_of_its_steps_ends_as_if_undisturbed(tmp_path, spark, monkeypatch):
    """Whoever writes silver next tidies up, the replay itself or the hourly run: they take turns here."""
    stack = Stack(tmp_path, spark, gates=False)
    fill_with_a_broken_parser(stack, monkeypatch)
    for number, step in enumerate(STEPS):
        with ended_at(replay_commit, *step):
            replay_chosen(stack)
        if number == 1:
            assert stack.run("silver") is None
            assert assert_every_record_accounted_for(stack, waiting=["gold"]).quarantined == 6
    assert stack.run("silver") is None
    accounted = assert_every_record_accounted_for(stack, waiting=["gold"])
    assert (accounted.silver, accounted.quarantined, accounted.duplicate) == (5, 2, 3)
    assert [row["batch_id"] for row in stack.rows("_ops.books") if row["batch_id"].startswith("replay")] == ["replay-00000001"]
    versions = _versions(stack)
    replay_chosen(stack)
    assert _versions(stack) == versions


def _discovered(stack):
    return discover_work(
        Run(stack.settings, stack.pipeline, stack._next_run(), stack.clock), SimpleNamespace(sweep=False, first="", last="")
    )


def _command(stack):
    return stack.settings.model_copy(update={"reports": stack.folder / "reports"})


def _list(stack):
    return assay_json(_command(stack), "quarantine", "list")


def _versions(stack):
    tables = [SILVER, *(SILVER.side(side) for side in SIDES), *stack.pipeline.gold_tables]
    found = {str(table): lake_table(stack.settings, table) for table in tables}
    return {name: table and table.version() for name, table in found.items()}
