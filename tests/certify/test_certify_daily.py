"""The daily job killed at every named line, gates on."""

import pytest

from tests.builders.daily_scene import DailyScene
from tests.builders.disturbed import differences, everything, kill, survivors
from tests.builders.kill_points import DAILY_POINTS


@pytest.fixture(scope="module")
def daily_scene(tmp_path_factory, spark):
    return DailyScene(tmp_path_factory.mktemp("certify_daily"), spark, lease_ttl_s=5)


@pytest.mark.parametrize("point", DAILY_POINTS, ids=lambda point: point.name)
def test_a_daily_job_killed_there_and_started_again_ends_as_if_undisturbed(daily_scene, say, point):
    stack = daily_scene.copy(point.name.replace(" ", "_").replace("'", "").replace(",", ""))
    kill(stack, point)
    assert not survivors(stack)
    assert stack.daily()["stopped"] is None
    assert not differences(everything(stack), daily_scene.undisturbed)
    say(f"  killed {point.name}: equal after one restart")
