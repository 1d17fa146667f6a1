"""A chunk of a backfill, killed and run again, ends in the same tables. All points one by one are in `make certify`."""

from spark_jobs.io.backfill_store import BackfillStore
from tests.builders.backfill_kills import ADMITTED, CLAIMED, SILVER, finish, kill_chunk, planned
from tests.builders.disturbed import differences, survivors
from tests.builders.increments import published


def test_a_chunk_killed_three_times_in_a_row_ends_as_if_undisturbed(scene):
    calm = scene.copy("calm_chunk")
    undisturbed = finish(calm, planned(calm))
    stack = scene.copy("killed_chunk")
    backfill = planned(stack)
    store, states, files = BackfillStore(stack.settings), [], []
    for point in (CLAIMED, ADMITTED, SILVER):
        kill_chunk(stack, backfill, point)
        assert not survivors(stack)
        states.append(store.chunk(backfill, 0)["state"])
        files.append(stack.arrow("_ops.files").num_rows)
    assert states == ["claimed"] * 3, "the third try found the files of the second entered, and brought them to silver before anything else"
    assert files == [3, 7, 7], "admitted by the second try, and not again by the third"
    assert not differences(finish(stack, backfill), undisturbed)
    assert store.get(backfill)["state"] == "done"
    # And what history brings is what a live run of the same files brings.
    live = scene.copy("live_instead")
    live.discover()
    assert live.run() is None
    assert published(stack) == published(live)
