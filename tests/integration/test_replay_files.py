"""Bronze read again by another parser: silver and gold end as if the new one had read everything, and a second replay commits nothing."""

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from spark_jobs.io.lake import lake_table
from spark_jobs.io.work import unfinished_layers
from spark_jobs.pipelines.cloudtrail import silver
from spark_jobs.report.balance import balance
from spark_jobs.spec.errors import GateStopped, SourceChanged
from spark_jobs.spec.tables import SIDES
from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.events import event, event_text
from tests.builders.misread import SILVER, WHOLE_SECONDS, land, replay_landed
from tests.builders.stack import Stack


def test_silver_and_gold_end_as_if_the_new_parser_had_read_everything_and_twice_is_once(spark, monkeypatch, tmp_path):
    stack, fresh = (Stack(tmp_path / name, spark, gates=False) for name in ("replayed", "fresh"))
    declared = silver.parse_events
    with monkeypatch.context() as old:
        old.setattr(silver, "EVENT_TIME", WHOLE_SECONDS)  # fractions are refused: 4 and 5 are quarantined
        _deliver(stack)
        assert stack.run() is None
    before = assert_every_record_accounted_for(stack)
    assert (before.silver, before.quarantined, before.duplicate) == (6, 3, 2)
    monkeypatch.setattr(silver, "parse_events", lambda raw: _new(declared(raw)))

    done = replay_landed(stack, "backfill-7.chunk-1")
    assert (done.recovered, done.changed, done.unchanged, done.still_bad, done.duplicate) == (3, 2, 3, 2, 1)
    accounted = assert_every_record_accounted_for(stack, waiting=["gold"], moved=_MOVED)
    assert (accounted.silver, accounted.quarantined, accounted.duplicate) == (8, 2, 1)
    assert unfinished_layers(stack.settings, stack.pipeline) == ["gold"]
    assert stack.run() is None
    assert assert_every_record_accounted_for(stack, moved=_MOVED).silver == 8
    assert balance(stack.settings, count_rows=True)["is_balanced"]

    _deliver(fresh)
    assert fresh.run() is None
    for table in (SILVER, SILVER.side("quarantine"), *stack.pipeline.gold_tables_of("hourly")):
        assert stack.content(str(table)) == fresh.content(str(table)), table

    versions = _versions(stack)
    assert replay_landed(stack, "backfill-7.chunk-1") == done  # carried out already
    again = replay_landed(stack, "backfill-8.chunk-1")
    assert (again.recovered, again.changed, again.unchanged, again.still_bad, again.duplicate) == (0, 0, 8, 2, 1)
    assert _versions(stack) == versions and stack.run() is None and _versions(stack) == versions


def test_a_parser_that_refuses_most_of_what_silver_has_is_stopped_by_the_gate(stack, monkeypatch):
    land(stack, "many", *[event_text(number) for number in range(25)])
    assert stack.run() is None
    before, versions = assert_every_record_accounted_for(stack), _versions(stack)
    monkeypatch.setattr(silver, "EARLIEST", "2025-01-01")
    with pytest.raises(GateStopped, match="at most half of a batch"):
        replay_landed(stack, "mistake")
    assert _versions(stack) == versions and assert_every_record_accounted_for(stack) == before


@pytest.mark.parametrize("change", [lambda table: table.delete("_record_index = 0"), lambda table: table.update({"user_agent": "'x'"})])
def test_rows_of_silver_changed_by_hand_stop_gold_with_a_sentence(stack, change):
    land(stack, "one", event_text(1), event_text(2))
    assert stack.run() is None
    before = stack.content("gold.cloudtrail_activity_1h")
    change(DeltaTable(stack.settings.location(SILVER)))
    with pytest.raises(SourceChanged, match=r"source silver.cloudtrail_events were changed in place by \w+ in the source's version 1"):
        stack.run("gold")
    assert stack.content("gold.cloudtrail_activity_1h") == before


_MOVED = {event(7)["eventID"]}


def _deliver(stack):
    """1 to 3 stay; 4 and 5 have fractions of seconds; 6 and 7 are read otherwise; 8 breaks the new contract, as does its re-delivery."""
    texts = [event_text(1), event_text(2), event_text(3, userAgent="x")]
    texts += [event_text(number, eventTime="2024-05-01T12:30:15.5Z") for number in (4, 5)]
    land(stack, "first", *texts)
    stack.run("bronze", "silver")
    land(stack, "second", event_text(6, eventName="Sixth"), event_text(7, eventName="Seventh"), event_text(8, eventName="Eighth"))
    stack.run("bronze", "silver")
    # Of 1 and 8 once more; and 9 without an id: bad by either parser.
    land(stack, "third", event_text(1), event_text(8, eventName="EighthAgain"), event_text(9, eventID=...))


def _new(parsed):
    """Another parser: 6 has another user agent, 7 belongs to the day after, 8 is refused as it came first but not as it came again."""
    refused = F.col("event_name") == "Eighth"
    later = F.when(F.col("event_name") == "Seventh", F.expr("event_time + interval 1 day")).otherwise(F.col("event_time"))
    agent = F.when(F.col("event_name") == "Sixth", F.lit("mended")).otherwise(F.col("user_agent"))
    parsed = parsed.withColumn("event_time", later).withColumn("event_date", F.to_date("event_time")).withColumn("user_agent", agent)
    nothing = F.lit(None)
    return (
        parsed.withColumn("_rule", F.when(refused, "refused").otherwise(F.col("_rule")))
        .withColumn("_reason", F.when(refused, "Eighth is refused.").otherwise(F.col("_reason")))
        .withColumn("raw", F.when(refused, F.lit(event_text(8, eventName="Eighth"))).otherwise(F.col("raw")))
        .withColumn("event_time", F.when(refused, nothing).otherwise(F.col("event_time")))
        .withColumn("event_date", F.when(refused, nothing).otherwise(F.col("event_date")))
    )


def _versions(stack):
    tables = [SILVER, *(SILVER.side(side) for side in SIDES), *stack.pipeline.gold_tables]
    found = {str(table): lake_table(stack.settings, table) for table in tables}
    return {name: table and table.version() for name, table in found.items()}
