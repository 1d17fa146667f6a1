"""Only a replay may change rows of silver after gold has counted them; anybody else's change is noticed before gold follows it."""

from __future__ import annotations

import json

from spark_jobs.io.lake import commit_actions
from spark_jobs.jobs.run import Run
from spark_jobs.spec.errors import SourceChanged
from spark_jobs.spec.replays import taken_from


def refuse_changes_by_others(run: Run, since: int, version: int) -> None:
    """Raises SourceChanged when a commit after version `since` and up to `version` took rows of silver out or wrote them anew, without
    being a replay's. Compaction changes no row. Versions whose commit files were cleaned up cannot be asked."""
    silver = run.pipeline.silver_table
    for number in range(since + 1, version + 1):
        try:
            actions = commit_actions(run.settings, silver, number)
        except FileNotFoundError:
            continue
        if not any(action["remove"].get("dataChange", True) for action in actions if "remove" in action):
            continue
        info = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        if taken_from(str(json.loads(info.get("userMetadata") or "{}").get("batch_id", ""))) is None:
            raise SourceChanged(
                f"{run.pipeline.gold_stream} cannot go on: rows of its source {silver} were changed in place by "
                f"{info.get('operation', 'an unknown operation')} in the source's version {number}, after they were read. "
                f"Nothing was written by this batch. If that is the source's last commit, remove its file from the source's _delta_log; "
                f"else restore the lake from a backup."
            )
