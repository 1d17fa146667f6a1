"""Every place at which killing a driver must cost nothing but time, in the order in which a run comes by."""

from tests.builders.kill_at import KillPoint

COMMIT = "spark_jobs.io.delta_tables:append_once"  # calls 1 and 2 are the two bronze batches, 3 is silver
SIDE = "spark_jobs.io.delta_tables:replace_batch_rows"  # call 1 and 2: bronze quarantine; 3: silver quarantine, 4: silver duplicates
GOLD = "spark_jobs.io.delta_tables:replace_where"  # one call for each gold table
BOOKS = "spark_jobs.jobs.publishing:write_books"  # calls 1 and 2: bronze, 3: silver, 4 to 6: gold

LEDGER_BEFORE = KillPoint("before the ledger commit", "spark_jobs.io.ledger:_commit", job="discover")
LEDGER = KillPoint("after the ledger commit", "spark_jobs.io.ledger:_commit", "after", job="discover")
BRONZE_WRITES = KillPoint("while bronze writes", COMMIT, appears="bronze/cloudtrail_records/**/*.parquet")
BRONZE_COMMITTED = KillPoint("after the bronze commit, before its books and checkpoint", COMMIT, "after")
SILVER_SIDE = KillPoint("after silver's first side table", SIDE, "after", 3)
SILVER_COMMITTED = KillPoint("after silver, before its books", COMMIT, "after", 3)
GOLD_COMMITTED = KillPoint("after the first gold commit, before its books", GOLD, "after")
GOLD_BETWEEN = KillPoint("between two gold tables", BOOKS, "after", 4)

POINTS = (
    LEDGER_BEFORE,
    LEDGER,
    KillPoint("after the lease was taken", "spark_jobs.io.lease:Lease.take", "after"),
    KillPoint("after the files were read, before their outcomes", "spark_jobs.io.ops:Ops.replace_batch"),
    KillPoint("after bronze's outcomes, before its side table", SIDE),
    KillPoint("after bronze's side table, before bronze", COMMIT),
    BRONZE_WRITES,
    BRONZE_COMMITTED,
    KillPoint("after bronze's books, before its checkpoint", BOOKS, "after"),
    KillPoint("before the second bronze batch commits", COMMIT, call=2),
    KillPoint("after the second bronze commit", COMMIT, "after", 2),
    KillPoint("while silver's first side table is written", SIDE, call=3, appears="silver/cloudtrail_events_quarantine/**/*.parquet"),
    SILVER_SIDE,
    KillPoint("after all side tables, before silver", COMMIT, call=3),
    KillPoint("while silver writes", COMMIT, call=3, appears="silver/cloudtrail_events/**/*.parquet"),
    SILVER_COMMITTED,
    KillPoint("after silver's books, before its checkpoint", BOOKS, "after", 3),
    KillPoint("while the first gold table is written", GOLD, appears="gold/cloudtrail_activity_1h/**/*.parquet"),
    GOLD_COMMITTED,
    GOLD_BETWEEN,
    KillPoint("after the last gold commit, before its books", GOLD, "after", 3),
    KillPoint("after the last books, before gold's checkpoint", BOOKS, "after", 6),
)
# Those in which two tables, or a table and its checkpoint, disagree most; the others are in `make certify`.
RISKIEST = (LEDGER, BRONZE_COMMITTED, SILVER_SIDE, SILVER_COMMITTED, GOLD_BETWEEN)
