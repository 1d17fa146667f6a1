"""Every place at which killing a driver must cost nothing but time, in the order in which a run comes by."""

from tests.builders.kill_at import KillPoint

COMMIT = "spark_jobs.io.delta_tables:append_once"  # calls 1 and 2 are the two bronze batches, 3 is silver
SIDE = "spark_jobs.io.delta_tables:replace_batch_rows"  # call 1 and 2: bronze quarantine; 3: silver quarantine, 4: silver duplicates
GOLD = "spark_jobs.io.delta_tables:replace_where"  # one call for each gold table
BOOKS = "spark_jobs.jobs.publishing:write_books"  # calls 1 and 2: bronze, 3: silver, 4 to 6: gold

LEDGER = KillPoint("after the ledger commit", "spark_jobs.io.ledger:_commit", "after", job="discover")

POINTS = (
    KillPoint("before the ledger commit", "spark_jobs.io.ledger:_commit", job="discover"),
    LEDGER,
    KillPoint("after the lease was taken", "spark_jobs.io.lease:Lease.take", "after"),
    KillPoint("after the files were read, before their outcomes", "spark_jobs.io.ops:Ops.replace_batch"),
    KillPoint("after bronze's outcomes, before its side table", SIDE),
    KillPoint("after bronze's side table, before bronze", COMMIT),
    KillPoint("while bronze writes", COMMIT, appears="bronze/cloudtrail_records/**/*.parquet"),
    KillPoint("after the bronze commit, before its books and checkpoint", COMMIT, "after"),
    KillPoint("after bronze's books, before its checkpoint", BOOKS, "after"),
    KillPoint("before the second bronze batch commits", COMMIT, call=2),
    KillPoint("after the second bronze commit", COMMIT, "after", 2),
    KillPoint("while silver's first side table is written", SIDE, call=3, appears="silver/cloudtrail_events_quarantine/**/*.parquet"),
    KillPoint("after silver's first side table", SIDE, "after", 3),
    KillPoint("after all side tables, before silver", COMMIT, call=3),
    KillPoint("while silver writes", COMMIT, call=3, appears="silver/cloudtrail_events/**/*.parquet"),
    KillPoint("after silver, before its books", COMMIT, "after", 3),
    KillPoint("after silver's books, before its checkpoint", BOOKS, "after", 3),
    KillPoint("while the first gold table is written", GOLD, appears="gold/cloudtrail_activity_1h/**/*.parquet"),
    KillPoint("after the first gold commit, before its books", GOLD, "after"),
    KillPoint("between two gold tables", BOOKS, "after", 4),
    KillPoint("after the last gold commit, before its books", GOLD, "after", 3),
    KillPoint("after the last books, before gold's checkpoint", BOOKS, "after", 6),
)
# A driver that is frozen here wakes up when another one has done its work; each is past the last look at the lease.
FREEZES = (
    KillPoint("frozen before bronze's side table", SIDE, freeze=True),
    KillPoint("frozen before the bronze commit", COMMIT, freeze=True),
    KillPoint("frozen after the bronze commit", COMMIT, "after", freeze=True),
    KillPoint("frozen before silver's duplicates are written", SIDE, call=4, freeze=True),
    KillPoint("frozen before the silver commit", COMMIT, call=3, freeze=True),
    KillPoint("frozen before the first gold commit", GOLD, freeze=True),
    KillPoint("frozen before the last gold commit", GOLD, call=3, freeze=True),
)


def _points(what: str, job: str, *places: tuple[str, str, str, int, str]) -> tuple[KillPoint, ...]:
    """One for each place: its name, the function, before or after which call of it, and the file that appears."""
    return tuple(KillPoint(f"{what}, {name}", function, when, call, appears, job=job) for name, function, when, call, appears in places)


# A replay of quarantine, of files, and the release of a held batch, in the order in which each comes by.
INTENT = "spark_jobs.jobs.replay_commit:_tell_intent"
CHANGE = "spark_jobs.io.delta_changes:change_once"
TAKE_OUT = "spark_jobs.io.delta_changes:take_out"
QUARANTINE_REPLAY_POINTS = _points(
    "replay of quarantine",
    "spark_jobs.jobs.replay_quarantine",
    ("before its intent", INTENT, "before", 1, ""),
    ("after its intent", INTENT, "after", 1, ""),
    ("while its first side table is written", SIDE, "before", 1, "silver/cloudtrail_events_quarantine/**/*.parquet"),
    ("after its first side table", SIDE, "after", 1, ""),
    ("after its side tables", SIDE, "after", 2, ""),
    ("while silver is written", COMMIT, "before", 1, "silver/cloudtrail_events/**/*.parquet"),
    ("after silver, before its books", COMMIT, "after", 1, ""),
    ("after its books", BOOKS, "after", 1, ""),
    ("after the quarantine is tidied up", TAKE_OUT, "after", 1, ""),
    ("after all is tidied up, before its intent is removed", TAKE_OUT, "after", 2, ""),
)
FILES_REPLAY_POINTS = _points(
    "replay of files",
    "tests.builders.misread",
    ("after its intent", INTENT, "after", 1, ""),
    ("after its side tables", SIDE, "after", 2, ""),
    ("before silver is changed", CHANGE, "before", 1, ""),
    ("while silver is changed", CHANGE, "before", 1, "silver/cloudtrail_events/**/*.parquet"),
    ("after silver is changed, before its books", CHANGE, "after", 1, ""),
    ("between two of its books", BOOKS, "after", 1, ""),
    ("after its books", BOOKS, "after", 2, ""),
    ("after the quarantine is tidied up", TAKE_OUT, "after", 1, ""),
    ("after all is tidied up, before its intent is removed", TAKE_OUT, "after", 2, ""),
)
RELEASE_POINTS = _points(
    "release",
    "spark_jobs.jobs.build_silver",
    ("before its duplicates", SIDE, "before", 1, ""),
    ("after its duplicates", SIDE, "after", 1, ""),
    ("while silver is written", COMMIT, "before", 1, "silver/cloudtrail_events/**/*.parquet"),
    ("after silver, before the held rows are taken away", COMMIT, "after", 1, ""),
    ("after the held rows are taken away, before its books", SIDE, "after", 2, ""),
    ("after its books", BOOKS, "after", 1, ""),
)
AMENDMENTS, MERGE = "spark_jobs.jobs.amendments:record_amendments", "spark_jobs.io.delta_tables:merge_once"
DAILY_POINTS = _points(
    "daily gold",
    "build_daily_gold",
    ("after its leases were taken", "spark_jobs.io.lease:Lease.take", "after", 2, ""),
    ("before the amendments", AMENDMENTS, "before", 1, ""),
    ("while the amendments are written", AMENDMENTS, "before", 1, "_ops/amendments/*.parquet"),
    ("after the amendments, before the day's windows", AMENDMENTS, "after", 1, ""),
    ("while the day's windows are written", GOLD, "before", 1, "gold/cloudtrail_account_activity_1d/**/*.parquet"),
    ("after the day's windows, before their books", GOLD, "after", 1, ""),
    ("between the windows and first seen", BOOKS, "after", 1, ""),
    ("before first seen", MERGE, "before", 1, ""),
    ("while first seen is merged", MERGE, "before", 1, "gold/cloudtrail_first_seen/**/*.parquet"),
    ("after first seen, before its books", MERGE, "after", 1, ""),
    ("after the last books", BOOKS, "after", 2, ""),
)
