"""A driver killed at an exact line: after a restart every table is what it would have been. All points one by one are in `make certify`."""

from tests.builders.disturbed import differences, everything, kill, survivors
from tests.builders.kill_at import KillPoint
from tests.builders.kill_points import BOOKS, COMMIT, LEDGER, SIDE

SILVER = ("silver.cloudtrail_events", "silver.cloudtrail_events_quarantine")


def test_the_deliveries_fill_every_side_table(scene):
    rows = {name: len(rows) for name, rows in scene.undisturbed.items()}
    assert rows["bronze.cloudtrail_records_quarantine"] == 2
    assert rows["silver.cloudtrail_events_quarantine"] == 3
    assert rows["silver.cloudtrail_events_duplicates"] == 6
    assert rows["silver.cloudtrail_events"] == 16
    assert all('"is_balanced": true' in row for row in scene.undisturbed["_ops.books"])
    failed = [row for row in scene.undisturbed["_ops.file_outcomes"] if '"outcome": "failed"' in row]
    assert len(failed) == 2


def test_killed_after_the_ledger_commit_no_file_is_entered_twice(scene):
    stack = scene.copy("ledger")
    kill(stack, LEDGER)
    assert len(stack.rows("_ops.files")) == 10
    assert stack.discover().new == 0
    assert stack.run() is None
    assert not differences(everything(stack), scene.undisturbed)


def test_killed_five_times_in_a_row_it_ends_as_if_undisturbed(scene):
    """Each restart is a driver that is killed further on, so calls count from where the one before it had come to."""
    stack = scene.copy("five_kills")
    stack.discover()
    counts = []
    for point in (
        KillPoint("while bronze writes", COMMIT, appears="bronze/cloudtrail_records/**/*.parquet"),
        KillPoint("after the bronze commit, before its books and checkpoint", COMMIT, "after"),
        KillPoint("after silver's first side table", SIDE, "after", 2),
        KillPoint("after silver, before its books", COMMIT, "after"),
        KillPoint("between two gold tables", BOOKS, "after", 2),
    ):
        kill(stack, point)
        counts.append([stack.arrow(table).num_rows for table in ("bronze.cloudtrail_records", *SILVER, "_ops.books")])
        assert not survivors(stack), f"{point.name}: the killed driver's JVM or workers are still there"
    # bronze, silver, its quarantine, books: what each kill has left, so that each was where its name says.
    assert counts == [[11, 10, 1, 5], [17, 10, 1, 5], [25, 10, 3, 7], [25, 16, 3, 7], [25, 16, 3, 9]]
    assert stack.run() is None
    assert not differences(everything(stack), scene.undisturbed)
