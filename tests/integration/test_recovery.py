"""A driver killed at an exact line: after a restart every table is what it would have been. All points are in `make certify`."""

import pytest

from tests.builders.disturbed import Scene, differences, everything
from tests.builders.kill_points import RISKIEST


@pytest.fixture(scope="module")
def scene(tmp_path_factory, spark):
    return Scene(tmp_path_factory.mktemp("recovery"), spark)


def test_the_deliveries_fill_every_side_table(scene):
    rows = {name: len(rows) for name, rows in scene.undisturbed.items()}
    assert rows["bronze.cloudtrail_records_quarantine"] == 2
    assert rows["silver.cloudtrail_events_quarantine"] == 3
    assert rows["silver.cloudtrail_events_duplicates"] == 6
    assert rows["silver.cloudtrail_events"] == 16
    assert all('"is_balanced": true' in row for row in scene.undisturbed["_ops.books"])
    failed = [row for row in scene.undisturbed["_ops.file_outcomes"] if '"outcome": "failed"' in row]
    assert len(failed) == 2


@pytest.mark.parametrize("point", RISKIEST, ids=lambda point: point.name)
def test_a_driver_killed_there_and_started_again_ends_as_if_undisturbed(scene, point):
    stack = scene.killed(point)
    assert everything(stack) != scene.undisturbed
    stack.discover()
    assert stack.run() is None
    assert not differences(everything(stack), scene.undisturbed)
