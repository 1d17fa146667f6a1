"""Whether the log of a query's source still tells what the query has to read, and whether only rows were added since."""

from __future__ import annotations

from collections.abc import Iterator

from spark_jobs.io.checkpoint_files import CheckpointFiles
from spark_jobs.io.delta_log import latest_version
from spark_jobs.io.lake import commit_actions
from spark_jobs.spec.errors import AssayError, CheckpointDamaged, SourceChanged
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId


def faults_of_source(
    settings: Settings, files: CheckpointFiles, source: TableId, mend: str, *, reads_changes: bool
) -> Iterator[AssayError]:  # fmt: skip
    """What in the source's log stops a start: commits that are gone, a log that is shorter than what was read, rows changed in place."""
    offsets, commits = files.numbers("offsets"), files.numbers("commits")
    if not offsets:
        return
    latest = latest_version(settings, source)
    reached = files.log_begin(max(commits)) if commits else 0
    if latest is None or reached > latest + 1:
        yield CheckpointDamaged(
            f"The checkpoint {files.location} has read {source} up to version {reached - 1}, which now ends with version "
            f"{latest}: the source was set back. {mend}"
        )
        return
    # Spark plans the newest batch once more, also one that is finished: from where the one before it ended.
    for version in range(files.log_begin(max(offsets) - 1), latest + 1):
        try:
            actions = commit_actions(settings, source, version)
        except FileNotFoundError:
            yield CheckpointDamaged(
                f"The log of {source} no longer has the commit of version {version}, from which the checkpoint {files.location} goes on. "
                f"{mend}"
            )
            return
        if reads_changes or version < reached:
            continue
        if any(action["remove"].get("dataChange", True) for action in actions if "remove" in action):
            info: dict[str, object] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
            yield changed_in_place(files.location.split("/")[-2], source, str(info.get("operation", "an unknown operation")), version)
            return


def changed_in_place(query: str, source: TableId, operation: str, version: int) -> SourceChanged:
    return SourceChanged(
        f"{query} cannot go on: rows of its source {source} were changed in place by {operation} in the source's version {version}, after "
        f"they were read. Nothing was written by this batch. If that is the source's last commit, remove its file from the source's "
        f"_delta_log; else restore the lake from a backup."
    )
