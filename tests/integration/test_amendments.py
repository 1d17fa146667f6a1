"""What changes a window that had settled is written down before gold shows it; what changes an open one is not."""

import json
from datetime import UTC, date, datetime

import pytest

from spark_jobs.io.landing import LandingFolder
from spark_jobs.io.ledger import admit
from spark_jobs.jobs import build_gold
from spark_jobs.spec.tables import AMENDMENTS
from tests.builders.assay_command import assay_json
from tests.builders.batch_over_silver import assert_gold_is_a_batch_over_silver
from tests.builders.deliveries import DENIED, text
from tests.builders.landing_files import document, log_path, packed

READER = "arn:aws:sts::111122223333:assumed-role/Reader/session"
ACTIVITY, PRINCIPALS = "gold.cloudtrail_activity_1h", "gold.cloudtrail_principal_activity_1h"
DENIALS, DAYS = "gold.cloudtrail_denied_15m", "gold.cloudtrail_account_activity_1d"


def at(clock, day=1):
    hour, minute = clock.split(":")
    return datetime(2024, 5, day, int(hour), int(minute), tzinfo=UTC)


def event(number, clock, **changes):
    return text(number, eventTime=f"2024-05-01T{clock}:00Z", **changes)


def bring(stack, number, clock, *records, admitted=""):
    """Records of one file that arrives at a time of the day (`<day> hh:mm` from the second on), and the hourly run after it."""
    stack.clock = lambda: clock
    path = stack.land(log_path(number), packed(document(records)))
    if admitted:
        objects = [found for found in LandingFolder(stack.settings.landing_root).everything() if found.path.endswith(path.name)]
        admit(stack.settings, stack.pipeline, objects, "backfill", clock, admitted)
    else:
        stack.discover()
    assert stack.run() is None
    assert_gold_is_a_batch_over_silver(stack)
    return str(path)


def amended(stack, *columns):
    rows = sorted(stack.rows("_ops.amendments"), key=lambda row: (row["table"], row["window_start"], row["key"]))
    return [tuple(row[name] for name in columns) for row in rows]


def test_a_late_event_corrects_every_window_it_is_in_and_each_correction_is_recorded(stack, monkeypatch):
    bring(stack, 1, at("02:10"), event(1, "01:30", **DENIED), event(2, "01:55"))
    bring(stack, 2, at("02:20"), event(3, "01:40", **DENIED))
    assert not stack.ops.exists(AMENDMENTS), "no window had settled, so nothing was looked for and nothing written"

    # At 04:10 an event of 01:58 comes, beside one that is on time. The run is killed in mind between the amendments and the gold commit.
    late, on_time = event(4, "01:58", **DENIED), event(5, "03:50")
    replace_where = build_gold.replace_where

    def ends_here(*_, **__):
        raise RuntimeError("ends here")

    monkeypatch.setattr(build_gold, "replace_where", ends_here)
    with pytest.raises(RuntimeError, match="ends here"):
        bring(stack, 3, at("04:10"), late, on_time)
    assert amended(stack, "table", "events") == [(ACTIVITY, 1)], "before gold shows it"
    monkeypatch.setattr(build_gold, "replace_where", replace_where)
    assert stack.run() is None
    assert_gold_is_a_batch_over_silver(stack)

    group = {"account_id": "111122223333", "aws_region": "eu-west-1", "event_source": "s3.amazonaws.com", "event_name": "GetObject"}
    counts = {"event_count": 3, "error_count": 2, "distinct_principals": 1}
    times = {"first_event_at": "2024-05-01T01:30:00.000Z", "last_event_at": "2024-05-01T01:55:00.000Z"}
    distinct = {"distinct_services": 1, "distinct_source_addresses": 1, "distinct_regions": 1}
    denied_key = {"account_id": "111122223333", "principal_arn": READER}
    changes = [
        (row[0], f"{row[1]:%H:%M}-{row[2]:%H:%M}", *(text and json.loads(text) for text in row[3:6]), *row[6:])
        for row in amended(stack, "table", "window_start", "window_end", "key", "before", "after", "events", "late_s")
    ]
    assert changes == [
        (ACTIVITY, "01:00-02:00", group, counts | times,
         {"event_count": 4, "error_count": 3, "distinct_principals": 1} | times | {"last_event_at": "2024-05-01T01:58:00.000Z"}, 1, 7800),
        (DENIALS, "01:45-02:00", denied_key, None, {"denied_count": 1}, 1, 7800),
        (DENIALS, "01:50-02:05", denied_key, None, {"denied_count": 1}, 1, 7500),
        (DENIALS, "01:55-02:10", denied_key, None, {"denied_count": 1}, 1, 7200),
        (PRINCIPALS, "01:00-02:00", {"principal_arn": READER}, {"event_count": 3, "denied_count": 2} | distinct,
         {"event_count": 4, "denied_count": 3} | distinct, 1, 7800),
    ]  # fmt: skip
    assert len(stack.rows("_ops.amendments")) == 5, "the repeated batch has replaced its rows"
    file = str(stack.landing / log_path(3))
    told = set(amended(stack, "pipeline", "files", "brought_by", "silver_version", "batch_id", "amended_at"))
    assert told == {("cloudtrail", json.dumps([file]), "live", 2, "v1-00000002", at("04:10"))}
    assert assay_json(stack.settings, "query", "SELECT count(*) AS n, max(late_s) AS late_s FROM _ops.amendments") == [
        {"n": 5, "late_s": 7800}
    ]

    # History that somebody admits says so; a row that is new in a settled window has nothing before. Daily tables do the same.
    assert stack.daily()["stopped"] is None
    bring(stack, 4, at("05:00", day=3), event(6, "00:10", recipientAccountId="999900001111"), admitted="backfill bf-1")
    assert stack.daily()["stopped"] is None
    (row,) = [row for row in stack.rows("_ops.amendments") if row["table"] == ACTIVITY and row["batch_id"] == "v1-00000003"]
    assert (row["brought_by"], row["before"], json.loads(row["key"])["account_id"]) == ("backfill bf-1", None, "999900001111")
    (row,) = [row for row in stack.rows("_ops.amendments") if row["table"] == DAYS]
    assert (row["window_start"], row["batch_id"], row["late_s"], row["events"]) == (at("00:00"), "daily-00000003", 29 * 3600, 1)

    # What is computed again and comes out the same is no change.
    before = amended(stack, "batch_id")
    run = stack.start("again")
    with build_gold.Leases(stack.settings, stack.pipeline.gold_tables, "again") as leases:
        build_gold.recompute(run, leases, [date(2024, 5, 1)], "again-1")
    assert amended(stack, "batch_id") == before
