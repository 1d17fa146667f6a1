"""Stop, hold and warn in each layer: what the tables hold, what release and reject do, what the next run does. Nothing is ever lost."""

from typer.testing import CliRunner

from spark_jobs.cli.held import app as held_command
from spark_jobs.jobs.gate import gate
from spark_jobs.jobs.run import Run
from spark_jobs.spec.tables import DECISIONS
from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.corpus import FOLDER, good_file
from tests.builders.events import event
from tests.builders.stricter import demand, with_policy

BRONZE, SILVER, ACTIVITY = "bronze.cloudtrail_records", "silver.cloudtrail_events", "gold.cloudtrail_activity_1h"
FIRST, SECOND, THIRD, FOURTH = (f"v1-{number:08d}" for number in range(4))


def test_a_stopped_silver_batch_waits_and_is_published_once_when_released(stack):
    _land(stack, "mostly_broken", _numbers(1, 9), _numbers(9, 22, eventID=...))
    stopped = stack.run()
    assert "at most half of a batch" in str(stopped)
    assert _count(stack, BRONZE) == 21 and _count(stack, SILVER) == 0 and _count(stack, ACTIVITY) == 0
    assert _outcomes(stack, SILVER) == {FIRST: "stop"} and _books(stack, SILVER) == {}
    assert _gate(stack, "silver") == "stop"
    assert assert_every_record_accounted_for(stack, waiting=["silver"]).bronze == 21

    _land(stack, "good", _numbers(30, 33))  # later data lands in bronze, and waits behind the stopped batch
    assert FIRST in str(stack.run())
    assert _count(stack, BRONZE) == 24 and _count(stack, SILVER) == 0
    assert assert_every_record_accounted_for(stack, waiting=["silver"]).silver == 0

    _decide(stack, "release", SILVER, FIRST)
    assert stack.run() is None
    assert _books(stack, SILVER) == {FIRST: ("stop", "release", 8, 13, 0, 0), SECOND: ("pass", None, 3, 0, 0, 0)}
    assert _gate(stack, "silver") == "warn"
    everything = assert_every_record_accounted_for(stack)
    assert (everything.silver, everything.quarantined) == (11, 13)

    stack.run()
    assert assert_every_record_accounted_for(stack) == everything
    assert _decide(stack, "release", SILVER, FIRST, expect=2).count("already decided") == 1


def test_a_stopped_silver_batch_that_is_rejected_goes_to_quarantine(stack):
    _land(stack, "mostly_broken", _numbers(1, 9), _numbers(9, 22, eventID=...))
    assert stack.run() is not None
    _decide(stack, "reject", SILVER, FIRST)
    assert stack.run() is None
    assert _books(stack, SILVER) == {FIRST: ("stop", "reject", 0, 21, 0, 0)}
    rules = [row["rule"] for row in stack.rows(f"{SILVER}_quarantine")]
    assert (rules.count("rejected"), rules.count("missing_event_id")) == (8, 13)
    assert assert_every_record_accounted_for(stack).silver == 0


def test_a_held_silver_batch_lets_good_data_pass_and_is_released_once_or_rejected(stack):
    _land(stack, "odd_account", _numbers(1, 4, recipientAccountId="not-an-account"))
    assert stack.run() is None
    assert _outcomes(stack, SILVER) == {FIRST: "hold"} and _gate(stack, "silver") == "hold"
    assert (_count(stack, SILVER), _count(stack, f"{SILVER}_held"), _count(stack, ACTIVITY)) == (0, 3, 0)
    assert assert_every_record_accounted_for(stack).held == 3

    # Event 2 arrives meanwhile in good order, and again differently; two more batches are held.
    _land(stack, "good", _numbers(2, 3), _numbers(5, 7))
    assert stack.run("bronze", "silver") is None
    _land(stack, "odd_again", _numbers(7, 9, recipientAccountId="not-an-account"))
    assert stack.run("bronze", "silver") is None
    assert _outcomes(stack, SILVER) == {FIRST: "hold", SECOND: "pass", THIRD: "hold"}
    accounted = assert_every_record_accounted_for(stack, waiting=["gold"])
    assert (accounted.silver, accounted.held) == (3, 5)

    _decide(stack, "release", SILVER, FIRST)
    _decide(stack, "reject", SILVER, THIRD)
    assert stack.run() is None
    books = _books(stack, SILVER)
    assert books[f"{FIRST}.release"] == ("hold", "release", 2, 0, 1, 0) and books[f"{THIRD}.reject"] == ("hold", "reject", 0, 2, 0, 0)
    accounted = assert_every_record_accounted_for(stack)
    assert (accounted.silver, accounted.quarantined, accounted.duplicate, accounted.held) == (5, 2, 1, 0)
    [repeated] = stack.rows(f"{SILVER}_duplicates")
    assert repeated["event_id"] == event(2)["eventID"] and repeated["is_conflicting"]

    _decide_again(stack, "release", FIRST)
    _decide_again(stack, "reject", FIRST)
    stack.run()
    assert assert_every_record_accounted_for(stack) == accounted


def test_a_warned_silver_batch_is_published_and_said(stack):
    _land(stack, "unknown_type", _numbers(1, 4, eventType="AwsNewThing"))
    assert stack.run() is None
    assert _books(stack, SILVER) == {FIRST: ("warn", None, 3, 0, 0, 0)} and _gate(stack, "silver") == "warn"
    said = {row["sentence"] for row in stack.rows("_ops.verdicts") if row["table"] == SILVER}
    assert len(said) == 1 and "event_type is a known one" in said.pop()
    assert assert_every_record_accounted_for(stack).silver == 3


def test_bronze_stops_holds_and_warns_and_does_as_decided(stack, monkeypatch):
    demand(monkeypatch, "bronze", "raw not like '%Poison%'", ["raw"])
    as_declared = stack.pipeline

    stack.pipeline = with_policy(as_declared, "bronze", "stop")
    _land(stack, "one", _numbers(1, 3, eventName="Poison"))
    assert FIRST in str(stack.run("bronze"))
    assert _outcomes(stack, BRONZE) == {FIRST: "stop"} and _count(stack, BRONZE) == 0 and _books(stack, BRONZE) == {}
    assert assert_every_record_accounted_for(stack, waiting=["bronze"]).bronze == 0
    _decide(stack, "release", BRONZE, FIRST)
    assert stack.run("bronze") is None
    assert _books(stack, BRONZE) == {FIRST: ("stop", "release", 2, 0, 0, 0)}

    _land(stack, "two", _numbers(3, 5, eventName="Poison"))
    assert SECOND in str(stack.run("bronze"))
    _decide(stack, "reject", BRONZE, SECOND)
    assert stack.run("bronze") is None
    assert _books(stack, BRONZE)[SECOND] == ("stop", "reject", 0, 2, 0, 0)

    stack.pipeline = with_policy(as_declared, "bronze", "hold")
    for name, first in {"three": 5, "four": 7}.items():
        _land(stack, name, _numbers(first, first + 2, eventName="Poison"))
        assert stack.run("bronze") is None
    assert _outcomes(stack, BRONZE)[THIRD] == _outcomes(stack, BRONZE)[FOURTH] == "hold" and _gate(stack, "bronze") == "hold"
    assert stack.run("silver", "gold") is None
    accounted = assert_every_record_accounted_for(stack)
    assert (accounted.bronze, accounted.bronze_quarantined, accounted.bronze_held, accounted.silver) == (2, 2, 4, 2)
    _decide(stack, "release", BRONZE, THIRD)
    _decide(stack, "reject", BRONZE, FOURTH)
    assert stack.run() is None
    accounted = assert_every_record_accounted_for(stack)
    assert (accounted.bronze, accounted.bronze_quarantined, accounted.bronze_held, accounted.silver) == (4, 4, 0, 4)

    stack.pipeline = with_policy(as_declared, "bronze", "warn")
    _land(stack, "five", _numbers(9, 11, eventName="Poison"))
    assert stack.run() is None
    assert _gate(stack, "bronze") == "warn"
    assert assert_every_record_accounted_for(stack).silver == 6


def test_gold_stops_before_anything_is_replaced_and_warns_when_told_to(stack, monkeypatch):
    demand(monkeypatch, "gold", "event_count <= 2", ["event_count"], subject="activity_1h")
    as_declared = stack.pipeline
    stack.pipeline = with_policy(as_declared, "gold", "hold")  # gold is recomputed, so holding is stopping
    _land(stack, "two", _numbers(1, 3))
    assert stack.run() is None
    before = stack.content(ACTIVITY)
    _land(stack, "two_more", _numbers(3, 5))
    assert ACTIVITY in str(stack.run())
    assert stack.content(ACTIVITY) == before and _count(stack, SILVER) == 4
    assert _outcomes(stack, ACTIVITY) == {FIRST: "pass", SECOND: "stop"} and _gate(stack, "gold") == "stop"
    assert_every_record_accounted_for(stack, waiting=["gold"])

    assert "recomputed from silver" in _decide(stack, "reject", ACTIVITY, SECOND, expect=2)
    assert ACTIVITY in str(stack.run())
    _decide(stack, "release", ACTIVITY, SECOND)
    assert stack.run() is None
    assert _books(stack, ACTIVITY)[SECOND] == ("stop", "release", 4, 0, 0, 0)
    assert_every_record_accounted_for(stack)

    stack.pipeline = with_policy(as_declared, "gold", "warn")
    _land(stack, "one_more", _numbers(5, 6))
    assert stack.run() is None
    assert _gate(stack, "gold") == "warn"
    assert assert_every_record_accounted_for(stack).silver == 5


def _numbers(first, last, **changes):
    return good_file(*range(first, last), **changes)


def _land(stack, name, *members):
    """One landed file of several gzip members, listed."""
    stack.land(f"{FOLDER}/{name}.json.gz", b"".join(members))
    stack.discover()


def _count(stack, table):
    return stack.arrow(table).num_rows


def _outcomes(stack, table):
    """Batch to the outcome of its newest verdict."""
    rows = sorted(stack.rows("_ops.verdicts"), key=lambda row: row["evaluated_at"])
    return {row["batch_id"]: row["outcome"] for row in rows if row["table"] == table}


def _books(stack, table):
    """Batch to outcome, decision, written, quarantined, duplicate, held."""
    terms = ("outcome", "decision", "written", "quarantined", "duplicate", "held")
    return {row["batch_id"]: tuple(row[term] for term in terms) for row in stack.rows("_ops.books") if row["table"] == table}


def _gate(stack, layer):
    """What the layer's gate task says of the last run."""
    return gate(Run(stack.settings, stack.pipeline, f"run-{stack._runs}"), layer)["outcome"]


def _decide(stack, decision, table, batch, expect=0):
    """A person decides on the command line; returns what it said."""
    command = [decision, table, batch, "--who", "ana", "--note", "looked at it"]
    done = CliRunner().invoke(held_command, command, env=stack.environment())
    if expect:
        assert done.exception is not None and getattr(done.exception, "exit_code", done.exit_code) == expect, done.output
        return f"{done.output}{done.exception}"
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def _decide_again(stack, decision, batch):
    """A second decision on a batch, past the command that refuses it."""
    row = {
        "decision_id": decision,
        "pipeline": "cloudtrail",
        "table": SILVER,
        "batch_id": batch,
        "decision": decision,
        "who": "bo",
        "note": "",
        "decided_at": stack.clock(),
    }
    stack.ops.append(DECISIONS, [row])
