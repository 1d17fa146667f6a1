"""Between two days' maintenance: a continuous driver leaves a data file per batch in each `_ops` table, some thousand in a day."""

from __future__ import annotations

from spark_jobs.io.lake import lake_table
from spark_jobs.jobs.compaction import compact_ops
from spark_jobs.jobs.run import Run
from spark_jobs.spec.tables import FILES, OPS_TABLES, TableId

# A file costs whoever reads a whole table about a millisecond; joining them costs as much again as reading them once.
MOST_FILES = 500


def tidy_ops(run: Run, most: int = MOST_FILES) -> list[TableId]:
    """Join the files of each `_ops` table that has more than `most`; returns those tables. The ledger's files stay as they are.

    Rows stay as they are, no lease is taken, and a writer that commits at the same moment goes first.
    """
    done = []
    for table in OPS_TABLES:
        found = lake_table(run.settings, table) if table != FILES else None
        if found is not None and len(found.file_uris()) > most:
            before, after = compact_ops(run, table)
            if after < before:
                done.append(table)
    return done
