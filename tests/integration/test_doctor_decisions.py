"""Batches that a gate stopped or held when a checkpoint was made anew: no decision is lost, or carried out twice."""

from spark_jobs.jobs import decisions
from spark_jobs.jobs.decide import decide
from spark_jobs.report.batches import waiting_batches
from spark_jobs.report.views import LakeViews
from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.corpus import FOLDER, good_file
from tests.builders.damages import metadata, newest_offsets, rebuild, to_rebuild, whole
from tests.builders.ended_at import ended_at

SILVER = "silver.cloudtrail_events"


def test_decisions_about_open_batches_outlive_a_rebuild_and_are_carried_out_once(stack):
    _land(stack, "broken", good_file(*range(1, 9)) + good_file(*range(9, 22), eventID=...))
    assert "at most half of a batch" in str(stack.run())
    _decide(stack, "v1-00000000", "release")
    metadata(stack, "silver")
    said = rebuild(stack, SILVER)
    assert f"The decision about {SILVER} v1-00000000 (release) goes over to v2-00000002, the same batch." in said
    _land(stack, "good", good_file(30, 31))  # beside the batch that was decided about, not in it
    assert stack.run() is None
    assert _decided(stack) == {"v2-00000002": ("release", 21), "v2-00000003": (None, 2)}
    assert _waiting(stack) == []

    _land(stack, "broken again", good_file(*range(41, 49)) + good_file(*range(49, 62), eventID=...))
    assert stack.run() is not None
    _decide(stack, "v2-00000004", "release")
    newest_offsets(stack, "silver", "v2")
    newest_offsets(stack, "silver", "v2")
    assert list(to_rebuild(stack)) == [SILVER]
    assert "the decision about it (release) ends" in " ".join(rebuild(stack, SILVER))
    assert _waiting(stack) == []
    assert "at most half of a batch" in str(stack.run())
    assert _waiting(stack) == [("v3-00000002", "stopped")]
    _decide(stack, "v3-00000002", "release")
    assert stack.run() is None
    accounted = assert_every_record_accounted_for(stack)
    assert (accounted.silver, accounted.quarantined, accounted.held) == (18, 26, 0)


def test_a_held_batch_is_released_once_whatever_became_of_its_checkpoint(stack):
    _land(stack, "odd", good_file(1, 2, 3, recipientAccountId="not-an-account"))
    assert stack.run() is None
    assert _waiting(stack) == [("v1-00000000", "held")]
    whole(stack, "silver")
    rebuild(stack, SILVER)
    assert stack.run() is None
    assert _waiting(stack) == [("v1-00000000", "held")]
    _decide(stack, "v1-00000000", "release")
    with ended_at(decisions, "replace_batch_rows"):
        stack.run("silver")  # dies with the rows in silver, and still in held
    whole(stack, "silver", "v2")
    rebuild(stack, SILVER)
    assert stack.run() is None
    accounted = assert_every_record_accounted_for(stack)
    assert (accounted.silver, accounted.held) == (3, 0)
    assert _waiting(stack) == [] and stack.run() is None
    assert assert_every_record_accounted_for(stack) == accounted


def _land(stack, name, content):
    stack.land(f"{FOLDER}/{name}.json.gz", content)
    stack.discover()


def _decide(stack, batch, decision):
    decide(stack.settings, SILVER, batch, decision, who="ada", note="", at=stack.clock())


def _decided(stack):
    return {row["batch_id"]: (row["decision"], row["read"]) for row in stack.rows("_ops.books") if row["table"] == SILVER}


def _waiting(stack):
    return [(row["batch_id"], row["state"]) for row in waiting_batches(LakeViews(stack.settings))]
