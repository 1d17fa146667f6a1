"""Replays killed by SIGKILL: whoever writes silver next ends what they began. All points one by one are in `make certify`."""

import pytest

from tests.builders.disturbed import differences, everything, kill, survivors
from tests.builders.kill_points import FILES_REPLAY_POINTS, QUARANTINE_REPLAY_POINTS
from tests.builders.misread import MisreadScene, replay_chosen, replay_landed

pytestmark = pytest.mark.certify  # a minute each: test_replay_quarantine has the same steps within one process


@pytest.fixture(scope="module")
def misread(tmp_path_factory, spark):
    return MisreadScene(tmp_path_factory.mktemp("misread"), spark, gates=False, lease_ttl_s=5)


def test_a_replay_of_quarantine_killed_after_its_commit_is_ended_by_the_next_run(misread):
    calm = misread.copy("calm")
    done = replay_chosen(calm)
    assert (done.recovered, done.still_bad, done.duplicate) == (1, 2, 3)
    stack = misread.copy("after_silver")
    kill(stack, next(point for point in QUARANTINE_REPLAY_POINTS if "after silver" in point.name))
    assert not survivors(stack)
    assert len(stack.rows("silver.cloudtrail_events_quarantine")) == 7  # what was recovered is still there, and one reworded row twice
    assert stack.run("silver") is None
    assert not differences(everything(stack), everything(calm))


def test_a_replay_of_files_killed_while_it_changes_silver_is_done_by_its_second_try(misread):
    calm = misread.copy("calm_files")
    done = replay_landed(calm)
    assert (done.recovered, done.changed, done.unchanged, done.still_bad) == (1, 2, 5, 2)
    stack = misread.copy("while_changed")
    kill(stack, next(point for point in FILES_REPLAY_POINTS if "while silver" in point.name))
    assert not survivors(stack)
    assert replay_landed(stack) == done
    assert not differences(everything(stack), everything(calm))
