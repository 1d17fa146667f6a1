"""Daily gold: the same code as hourly gold at another cadence, which neither waits for the other."""

from spark_jobs.io.work import unfinished_layers
from spark_jobs.jobs.build_daily_gold import build_daily_gold
from spark_jobs.jobs.gate import gate
from spark_jobs.jobs.run import Run
from spark_jobs.spec.tables import DECISIONS
from tests.builders.batch_over_silver import assert_gold_is_a_batch_over_silver
from tests.builders.deliveries import FIRST, SECOND, deliver, text
from tests.builders.landing_files import document, log_path, packed
from tests.builders.stricter import demand, with_policy

DAY = "gold.cloudtrail_account_activity_1d"


def test_daily_tables_are_brought_up_by_the_daily_run_alone_and_a_stopped_batch_keeps_its_name(stack, monkeypatch):
    deliver(stack.landing, FIRST)
    stack.discover()
    assert stack.run() is None
    assert not stack.rows(DAY), "the hourly run leaves daily tables alone"
    assert unfinished_layers(stack.settings, stack.pipeline) == []
    first = stack.daily("daily-1")
    assert DAY in first["tables"]
    assert first["stopped"] is None
    assert gate(stack.start("daily-1"), "gold")["outcome"] == "pass"
    assert_gold_is_a_batch_over_silver(stack, "hourly", "daily")

    idle = Run(stack.settings, stack.pipeline, "daily-2")
    before = stack.rows("_ops.books")
    assert build_daily_gold(idle) == {"tables": [], "stopped": None}
    assert not idle.has_session, "with nothing new it starts no JVM"
    assert stack.rows("_ops.books") == before

    # A stop leaves the table as it was and the hourly run alone; the next days' batch has the same name until it is released.
    pipeline = stack.pipeline
    stack.pipeline = with_policy(pipeline, "gold", "stop")
    with monkeypatch.context() as patch:
        demand(patch, "gold", "event_count < 0", ["event_count"], "account_activity_1d")
        deliver(stack.landing, SECOND)
        stack.discover()
        assert stack.run() is None
        assert "Nothing was committed" in stack.daily("daily-3")["stopped"]
        assert gate(stack.start("daily-3"), "gold")["outcome"] == "stop"
        deliver(stack.landing, {log_path(30): packed(document([text(200, eventTime="2024-05-03T01:00:00Z")]))})
        stack.discover()
        assert stack.run() is None
        assert_gold_is_a_batch_over_silver(stack, "hourly")
        assert stack.daily("daily-4")["stopped"]
        verdicts = {(row["run_id"], row["batch_id"]) for row in stack.rows("_ops.verdicts") if row["table"] == DAY}
        assert verdicts == {("daily-1", "daily-00000000"), ("daily-3", "daily-00000001"), ("daily-4", "daily-00000001")}
        decided = {
            "pipeline": "cloudtrail",
            "table": DAY,
            "batch_id": "daily-00000001",
            "decision": "release",
            "who": "ann",
            "note": "fine",
        }
        stack.ops.append(DECISIONS, [{"decision_id": "d", "decided_at": stack.clock(), **decided}])
        assert stack.daily("daily-5")["stopped"] is None
    stack.pipeline = pipeline
    assert_gold_is_a_batch_over_silver(stack, "hourly", "daily")
    books = [row for row in stack.rows("_ops.books") if row["table"] == DAY]
    assert sorted((row["batch_id"], row["decision"], row["read"], row["written"]) for row in books) == [
        ("daily-00000000", None, 10, 10),
        ("daily-00000001", "release", 17, 17),
    ]
    assert stack.daily()["tables"] == []
