"""A daily job killed at an exact line: started again it ends as if undisturbed. All points one by one are in `make certify`."""

import pytest

from tests.builders.daily_scene import DailyScene
from tests.builders.disturbed import differences, everything, kill, survivors
from tests.builders.kill_points import DAILY_POINTS


@pytest.fixture(scope="module")
def scene(tmp_path_factory, spark):
    return DailyScene(tmp_path_factory.mktemp("daily"), spark, gates=False, lease_ttl_s=5)


@pytest.mark.certify  # two minutes: the hourly kills beside it take the same way through gold
@pytest.mark.parametrize("which", ["after the amendments", "after first seen"])
def test_a_daily_job_killed_there_and_started_again_ends_as_if_undisturbed(scene, which):
    point = next(point for point in DAILY_POINTS if which in point.name)
    stack = scene.copy(which.replace(" ", "_"))
    books = len(stack.rows("_ops.books"))
    kill(stack, point)
    assert not survivors(stack)
    # What the kill has left: nothing of the day but its amendments; or both tables, and the books of one of them.
    amended = [row for row in stack.rows("_ops.amendments") if row["batch_id"] == "daily-00000001"]
    assert (bool(amended), len(stack.rows("_ops.books")) - books) == (True, 0 if "amendments" in which else 1)
    assert stack.daily()["stopped"] is None
    assert not differences(everything(stack), scene.undisturbed)
