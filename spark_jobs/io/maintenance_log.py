"""The log of a table: its old commit files are removed here, and not by whoever happens to write a checkpoint.

Delta removes the commits of thirty days ago whenever it writes a checkpoint, also those that a paused stream has still to read. So tables
are made with `delta.enableExpiredLogCleanup=false`, and maintenance removes what is old, covered by a checkpoint, and needed by nobody.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from spark_jobs.io.consumers import Need
from spark_jobs.io.lake import lake_table, storage
from spark_jobs.io.landing import modified_at
from spark_jobs.io.maintenance_files import Swept
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId

OWN_CLEANUP = {"delta.enableExpiredLogCleanup": "false"}
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_OF_A_VERSION = re.compile(r"\.?(\d{20})\..+")  # commit, checkpoint, and what Delta and Hadoop keep beside them


def cleans_up_by_itself(settings: Settings, table: TableId) -> bool:
    """True when Delta may still remove this table's old commits: it was made before tables were told not to."""
    found = lake_table(settings, table)
    return found is not None and found.metadata().configuration.get("delta.enableExpiredLogCleanup") != "false"


def remove_old_commits(settings: Settings, table: TableId, needs: Sequence[Need], *, before: datetime) -> Swept:
    """Remove the commit and checkpoint files below the newest checkpoint that is old enough and below every consumer's version.

    Every version from that checkpoint on stays readable. Oldest first, so that a killed one leaves no gap. `removed` counts commits.
    """
    fs, root = storage(settings.location(table))
    fs.invalidate_cache(f"{root}/_delta_log")
    entries = {str(info["name"]).rsplit("/", 1)[-1]: info for info in fs.ls(f"{root}/_delta_log", detail=True)}
    commits = {int(found[1]): modified_at(info) for name, info in entries.items() if (found := _COMMIT.fullmatch(name))}
    checkpoints = sorted(int(found[1]) for name in entries if (found := _CHECKPOINT.fullmatch(name)))
    # The first commit that is not old yet: from there on any version may be asked for.
    old_until = min((version for version, written in commits.items() if written >= before), default=max(commits, default=0))
    # A stream is started with the table as of the version before its position.
    needed = min((max(need.version - 1, 0) for need in needs), default=old_until)
    keep_from = max((version for version in checkpoints if version <= min(old_until, needed)), default=0)
    unhindered = max((version for version in checkpoints if version <= old_until), default=0)
    swept = Swept()
    if keep_from < unhindered:
        swept.held_back_by = [need.who for need in needs if max(need.version - 1, 0) < unhindered]
        swept.kept_from_version = min(need.version for need in needs)
        swept.kept = sum(keep_from <= version < unhindered for version in commits)
    for name in sorted(entries):
        if (found := _OF_A_VERSION.fullmatch(name)) and int(found[1]) < keep_from:
            with suppress(FileNotFoundError):
                fs.rm_file(f"{root}/_delta_log/{name}")
                swept.removed += bool(_COMMIT.fullmatch(name))
                swept.bytes += int(entries[name].get("size") or 0)
    return swept
