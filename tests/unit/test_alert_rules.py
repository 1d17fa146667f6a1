"""Each rule of alerts as a function of facts: what makes it fire, what does not, and what it says."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from spark_jobs.spec.alert_facts import (
    Arrivals,
    AuditResult,
    BatchPace,
    Disk,
    GrowingGroup,
    LateEvents,
    LateRun,
    Mark,
    Takeover,
    Traffic,
    UnbalancedBatch,
    Waiting,
    WaitingBatch,
)
from spark_jobs.spec.alerts import (
    DEFAULT_ALERTS,
    AuditMismatch,
    BooksUnbalanced,
    CrashLoop,
    DeadlineMissed,
    DiskNearlyFull,
    FallingBehind,
    FreshnessMissed,
    GateFailed,
    LateFlood,
    LeaseTakenOver,
    QuarantineGrowing,
    QueryFailed,
    SourceSilent,
    TaskFailed,
    TrafficSpike,
    override,
    without,
)
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.incidents import Incident, Sign, changes

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
S, MIN, H, D = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
TABLE = "silver.cloudtrail_events"


def mark(kind, ago, sentence=""):
    return Mark(TABLE, kind, NOW - ago, sentence)


@pytest.mark.parametrize(
    ("marks", "told"),
    [
        ([mark("well", MIN)], []),
        ([mark("failed", MIN, "boom")], [(1, None)]),
        # Healed by itself between two looks: an incident with its end.
        ([mark("failed", 50 * S), mark("begun", 40 * S), mark("well", 30 * S)], [(1, NOW - 30 * S)]),
        # Started again a moment ago shows nothing; having stood for the time set does.
        ([mark("failed", 50 * S), mark("begun", 40 * S)], [(1, None)]),
        ([mark("failed", 10 * MIN), mark("begun", 9 * MIN)], [(1, NOW - 6 * MIN)]),
        # In a row, with restarts in between: one incident.
        ([mark("failed", 50 * S), mark("begun", 40 * S), mark("failed", 30 * S)], [(2, None)]),
        # With work done in between: two.
        ([mark("failed", 50 * S), mark("well", 40 * S), mark("failed", 30 * S)], [(1, NOW - 40 * S), (1, None)]),
        # Standing for the time set and failing again: two.
        ([mark("failed", 30 * MIN), mark("begun", 29 * MIN), mark("failed", MIN)], [(1, NOW - 26 * MIN), (1, None)]),
    ],
)
def test_every_failure_is_told_and_those_in_a_row_are_one(marks, told):
    signs = QueryFailed().signs(marks, NOW)
    assert [sign.ended_at for sign in signs] == [ended for _, ended in told]
    assert ["2 times" in sign.sentence for sign in signs] == [count == 2 for count, _ in told]
    assert len({sign.occurrence for sign in signs}) == len(signs)


def test_a_crash_loop_is_failures_without_a_batch_in_between_or_giving_up():
    row = [mark("failed", (20 - number) * MIN, f"try {number}") for number in range(4)]
    assert CrashLoop().signs(row, NOW) == []
    assert "try 4" in CrashLoop().signs([*row, mark("failed", MIN, "try 4")], NOW)[0].sentence
    assert CrashLoop().signs([*row, mark("well", 10 * MIN + S), mark("failed", MIN)], NOW) == []
    assert "given up" in CrashLoop().signs([row[0], mark("crash_loop", MIN, "30 in a row")], NOW)[0].sentence


def test_a_task_that_only_runs_again_has_not_recovered():
    assert TaskFailed().signs([mark("failed", 2 * D), mark("begun", D)], NOW)[0].ended_at is None
    assert TaskFailed().signs([mark("failed", 2 * D), mark("well", D)], NOW)[0].ended_at == NOW - D


def test_a_stopped_batch_is_graver_than_a_held_one():
    batches = [WaitingBatch(TABLE, f"v1-{state}", state, 4, "Not as expected.", NOW - H) for state in ("stopped", "held")]
    assert [(sign.severity, sign.since) for sign in GateFailed().signs(batches, NOW)] == [("critical", NOW - H), ("warning", NOW - H)]


def paces(inputs, lags, processed=100.0):
    return {
        TABLE: [
            BatchPace(TABLE, NOW - (len(lags) - place) * MIN, rate * 1e6, processed * 1e6, int(lag * 1e9), lag)
            for place, (rate, lag) in enumerate(zip(inputs, lags, strict=True))
        ]
    }


@pytest.mark.parametrize(
    ("inputs", "lags", "said"),
    [
        ([200] * 5, [10, 11, 12, 13, 14], "once nothing more comes it takes about 2 min 20 s"),
        ([200] * 5, [20, 19, 18, 17, 16], "At the present trend it has caught up in 16 min"),
        ([50] * 5, [10, 11, 12, 13, 14], "falls behind"),  # what waits grows in spite of the rates
        ([50] * 5, [14, 13, 12, 11, 10], None),
        ([200] * 4 + [90], [10, 11, 12, 13, 13], None),
        ([200] * 4, [10, 11, 12, 13], None),  # too few
        ([200] * 5, [1.0, 1.1, 1.2, 1.3, 1.4], None),  # hardly behind
    ],
)
def test_falling_behind_is_batch_after_batch_and_says_when_it_has_caught_up(inputs, lags, said):
    found = FallingBehind().signs(paces(inputs, lags), NOW)
    assert (said in found[0].sentence) if said else not found


def test_a_backlog_that_is_worked_off_is_not_falling_behind():
    """What waits grows older with every batch of a long run, and less."""
    batches = [BatchPace(TABLE, NOW - (5 - place) * MIN, 90, 100, (5 - place) * 10**6, 30.0 + place) for place in range(5)]
    assert FallingBehind().signs({TABLE: batches}, NOW) == []
    assert FallingBehind().signs({TABLE: [replace(one, lag_bytes=10**6) for one in batches]}, NOW)


@pytest.mark.parametrize(
    ("arrivals", "quiet", "fires"),
    [
        ([], D, False),  # nothing has ever landed
        ([0 * H], 23 * H, False),
        ([0 * H], 25 * H, True),  # the declared bound
        ([n * H for n in range(12)], 1.4 * H, False),
        ([n * H for n in range(12)], 1.6 * H, True),  # longer than one and a half of the longest pause
        ([n * H for n in range(11)] + [19 * H], 10 * H, False),  # a night of nine hours is usual
        ([n * S for n in range(50)], 0.9 * H, False),  # bursts of a test are no yardstick
    ],
)
def test_silence_is_longer_than_usual_or_than_declared(arrivals, quiet, fires):
    newest = max(arrivals, default=0 * H)
    moments = tuple(NOW - quiet - newest + at for at in arrivals)
    assert bool(SourceSilent().signs(Arrivals(moments), NOW)) == fires


@pytest.mark.parametrize(
    ("last_hour", "same_hour", "today", "fires"),
    [
        (9_000, [], [], False),  # nothing to compare with
        (9_000, [2_000] * 3, [], True),
        (5_900, [2_000] * 3, [], False),
        (900, [10] * 3, [], False),  # many times almost nothing
        (9_000, [2_000] * 2, [2_000] * 6, True),  # too few days: the day's hours
        (9_000, [8_000] * 3, [500] * 20, False),  # this hour is always so
    ],
)
def test_a_spike_is_judged_by_the_same_hour_of_other_days(last_hour, same_hour, today, fires):
    batches = [(NOW - (day + 1) * D - 30 * MIN, count) for day, count in enumerate(same_hour)]
    batches += [(NOW - (hour + 1) * H - 30 * MIN, count) for hour, count in enumerate(today)]
    batches += [(NOW - 40 * MIN, last_hour // 2), (NOW - 10 * MIN, last_hour - last_hour // 2)]
    assert bool(TrafficSpike().signs(Traffic(tuple(sorted(batches))), NOW)) == fires


@pytest.mark.parametrize(
    ("rule", "quiet", "loud", "said"),
    [
        (LateFlood(), LateEvents(99, 5, 100), LateEvents(100, 5, 1000), "100 events of 1,000"),
        (LateFlood(), LateEvents(400, 5, 10_000), LateEvents(500, 5, 10_000), "5 windows"),
        (QuarantineGrowing(), [], [GrowingGroup(TABLE, "no_event_id", "36e8fb1cb1e9", 60, 0.5)], "60 records in 24 h"),
        (
            FreshnessMissed(), [Waiting(TABLE, NOW - 2 * H, 2 * H), Waiting(TABLE, None, 2 * H)],
            [Waiting(TABLE, NOW - 2 * H - S, 2 * H)], "target is 2 h",
        ),
        (AuditMismatch(), [AuditResult("gold.x", "a", NOW, True, "equal")], [AuditResult("gold.x", "a", NOW, False, "A cell")], "A cell"),
        (BooksUnbalanced(), [], [UnbalancedBatch(TABLE, "v1-00000001", "4 = 3", NOW)], "4 = 3"),
        (LeaseTakenOver(), [], [Takeover(("a", "b", "c", "d"), "run x", "run y", "7", NOW, None)], "a, b, c and 1 more from run x"),
        (DeadlineMissed(), [], [LateRun("cloudtrail_hourly", "r", NOW, "It is late.", None)], "late"),
        (DiskNearlyFull(), [Disk("/lake", 6 * 10**9, 10**11)], [Disk("/lake", 5 * 10**9 - 1, 10**11)], "5.0 GB of 100 GB"),
        (DiskNearlyFull(), [Disk("/lake", 21 * 10**9, 10**13)], [Disk("/lake", 21 * 10**9, 10**13, was_low=True)], "left"),
    ],
)  # fmt: skip
def test_fires_beyond_its_threshold_and_not_before(rule, quiet, loud, said):
    assert rule.signs(quiet, NOW) == []
    assert said in rule.signs(loud, NOW)[0].sentence


def test_each_rule_has_a_name_of_its_own_and_says_its_threshold():
    assert len({rule.name for rule in DEFAULT_ALERTS}) == len(DEFAULT_ALERTS) == 15
    assert all(rule.threshold and rule.reads for rule in DEFAULT_ALERTS)


def test_a_pipeline_changes_or_leaves_out_a_rule():
    changed = override(TrafficSpike(times=10))
    assert [rule.times for rule in changed if rule.name == "traffic_spike"] == [10]
    assert len(changed) == len(DEFAULT_ALERTS) == len(without("source_silent")) + 1
    with pytest.raises(ConfigurationFault, match="no alert rule silence"):
        without("silence")


def told(known, signs, now=NOW, judged=("a",)):
    """The states to write, and what is known after that."""
    found = changes("p", known, signs, judged, now)
    return found, list({one.incident_id: one for one in [*known, *found]}.values())


def test_an_incident_fires_once_and_recovers_once():
    sign = Sign("a", "t", "warning", "It is so.", NOW)
    fired, known = told([], [sign])
    assert [one.state for one in fired] == ["firing"]
    assert told(known, [sign], NOW + MIN)[0] == []
    assert told(known, [], NOW + MIN, judged=("b",))[0] == []  # the rule could not be evaluated: nobody knows
    over, known = told(known, [], NOW + MIN)
    assert [(one.state, one.incident_id, one.sentence) for one in over] == [("recovered", fired[0].incident_id, "Over. It was: It is so.")]
    again, known = told(known, [sign], NOW + H)
    assert again[0].incident_id != fired[0].incident_id and told(known, [sign])[0] == []


def test_what_began_and_ended_between_two_looks_is_told_with_its_end_and_never_again():
    first = Sign("a", "t", "critical", "failed", NOW, "one", NOW + S, "works again")
    found, known = told([], [first])
    assert [(one.state, one.sentence) for one in found] == [("firing", "failed"), ("recovered", "works again")]
    found, known = told(known, [first, Sign("a", "t", "critical", "failed again", NOW, "two")])
    assert [one.sentence for one in found] == ["failed again"]
    assert len({one.incident_id for one in known}) == 2


def test_two_who_look_at_the_same_facts_speak_of_the_same_incident():
    sign = Sign("a", "t", "warning", "It is so.", NOW)
    one, other = told([], [sign])[0], told([], [sign], NOW + S)[0]
    assert one[0].incident_id == other[0].incident_id
    assert isinstance(one[0], Incident)
