"""A soak can be played again: one seed, one schedule, one landing; and each kind of thing happens."""

from collections import Counter

from tests.soak.landing_load import LandingLoad
from tests.soak.schedule import CALM_END_S, CALM_START_S, DISTURBANCES, LANDINGS, schedule


def test_one_seed_is_one_schedule_and_another_seed_is_another():
    assert schedule(7, 40) == schedule(7, 40) != schedule(8, 40)


def test_in_forty_minutes_everything_happens_as_often_as_anything_else_with_a_calm_before_and_after():
    plan = schedule(7, 40)
    counts = Counter(one.what for one in plan)
    assert set(counts) == {*DISTURBANCES, *LANDINGS}
    kills = [counts[what] for what in DISTURBANCES]
    assert max(kills) - min(kills) <= 1 and min(kills) >= 5
    assert all(CALM_START_S <= one.at_s < 40 * 60 - CALM_END_S for one in plan if one.what in DISTURBANCES)
    assert plan == sorted(plan) and plan[-1].at_s < 40 * 60 - CALM_END_S


def test_the_same_files_land_from_the_same_schedule(tmp_path):
    landed = []
    for name in ("one", "other"):
        folder = tmp_path / name / "landing"
        folder.mkdir(parents=True)
        load = LandingLoad(folder)
        for happening in schedule(3, 4):
            if happening.what in LANDINGS:
                load.land(happening.what, happening.seed)
        load.finish()
        landed.append(({str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}, load.wanted))
    assert landed[0] == landed[1]
    files, wanted = landed[0]
    assert len(files) > 30 and len(wanted) > 500
