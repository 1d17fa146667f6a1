"""SIGKILL of replays and of a release at every named line: the second try, or the next run, ends in the tables of an undisturbed one."""

import pytest

from tests.builders.disturbed import differences, everything, kill, survivors
from tests.builders.kill_points import FILES_REPLAY_POINTS, QUARANTINE_REPLAY_POINTS, RELEASE_POINTS
from tests.builders.misread import MisreadScene, replay_chosen, replay_landed


@pytest.fixture(scope="module")
def misread(tmp_path_factory, spark):
    return MisreadScene(tmp_path_factory.mktemp("misread"), spark, held=True, lease_ttl_s=5)


@pytest.fixture(scope="module")
def undisturbed(misread):
    """Per kind of work: the tables of a lake in which nobody disturbed it."""
    found = {}
    for kind, work in WORK.items():
        stack = misread.decided(f"calm_{kind}") if kind == "release" else misread.copy(f"calm_{kind}")
        work(stack)
        assert stack.run() is None
        found[kind] = everything(stack)
    return found


WORK = {"quarantine": replay_chosen, "files": replay_landed, "release": lambda stack: None}
POINTS = [
    *[("quarantine", point) for point in QUARANTINE_REPLAY_POINTS], *[("files", point) for point in FILES_REPLAY_POINTS],
    *[("release", point) for point in RELEASE_POINTS],
]  # fmt: skip


@pytest.mark.parametrize("is_tried_again", [True, False], ids=["tried again", "left to the next run"])
@pytest.mark.parametrize(("kind", "point"), POINTS, ids=[point.name for _, point in POINTS])
def test_a_replay_or_release_killed_there_ends_as_if_undisturbed(misread, undisturbed, say, kind, point, is_tried_again):
    name = f"{point.name}_{is_tried_again}".replace(" ", "_").replace(",", "")
    stack = misread.decided(name) if kind == "release" else misread.copy(name)
    kill(stack, point)
    assert not survivors(stack)
    if not is_tried_again:
        assert stack.run() is None
    WORK[kind](stack)
    assert stack.run() is None
    assert not differences(everything(stack), undisturbed[kind])
    say(f"  killed {point.name}: equal after {'a second try' if is_tried_again else 'the next run'}")
