"""What happens when a task or a run fails, is tried again, or succeeds after all: one record that other programs can read."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

Kind = Literal["failed", "retried", "succeeded", "deadline"]
NEWEST_BYTES = 1_000_000  # some thousand records: as far back as a success is looked for something to end

_log = logging.getLogger(__name__)


class SayFailure:
    """Callbacks of a DAG.

    Each failure is one JSON line in `<home>/failures.jsonl`: at (UTC), dag_id, run_id, task_id (null for the run), kind, sentence. A
    success is recorded only where a failure of its DAG, or a missed deadline of its run, stands before it. `assay alerts` and the watch
    read this file.
    """

    def __init__(self, home: Path) -> None:
        self.file = home / "failures.jsonl"

    def of_task(self, context: Any) -> None:
        """A task has failed for good; its own process calls this, so the exception is at hand."""
        self._of_try(context, "failed")

    def of_retry(self, context: Any) -> None:
        """A try of a task has failed, and there is another one."""
        self._of_try(context, "retried")

    def of_success(self, context: Any) -> None:
        """A task has succeeded, but not at once."""
        instance = context["ti"]
        if instance.try_number > 1:
            said = f"{instance.task_id} succeeded at try {instance.try_number}."
            self.record(instance.dag_id, instance.run_id, instance.task_id, "succeeded", said)

    def of_run(self, context: Any) -> None:
        """The run has failed; called wherever the scheduler has its callbacks run, so the reasons are read from the file."""
        run = context["dag_run"]
        told = (record for record in self.records(run.run_id) if record.get("kind", "failed") == "failed")
        failed = [f"{record['task_id']}: {record['sentence']}" for record in told if record["task_id"]]
        why = "; ".join(failed) or str(context.get("reason") or "its log says why")
        sentence = f"Run {run.run_id} of {run.dag_id} failed ({why}). What was published before stays."
        _log.error("%s", sentence)
        self.record(str(run.dag_id), str(run.run_id), None, "failed", sentence)

    def of_green_run(self, context: Any) -> None:
        """The run has succeeded: what failed in its DAG before is over."""
        run = context["dag_run"]
        newest = [record for record in self._newest() if record.get("dag_id") == str(run.dag_id)]
        ends = next((record for record in reversed(newest) if record["task_id"] is None and record.get("kind") == "succeeded"), None)
        if any(record.get("kind", "failed") != "succeeded" for record in (newest[newest.index(ends) :] if ends else newest)):
            self.record(str(run.dag_id), str(run.run_id), None, "succeeded", f"Run {run.run_id} of {run.dag_id} succeeded.")

    def of_deadline(self, dag_id: str, run_id: str, sentence: str) -> None:
        """The run is not done at its deadline."""
        self.record(dag_id, run_id, None, "deadline", sentence)

    def records(self, run_id: str) -> list[dict[str, Any]]:
        """What was recorded for one run, oldest first."""
        return [record for record in self._newest() if record.get("run_id") == run_id]

    def record(self, dag_id: str, run_id: str, task_id: str | None, kind: Kind, sentence: str) -> None:
        """Add one line; one write, so that lines of many processes never mix."""
        record = {"at": datetime.now(UTC).isoformat(), "dag_id": dag_id, "run_id": run_id, "task_id": task_id, "kind": kind}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(record | {"sentence": sentence}, ensure_ascii=False) + "\n")

    def _of_try(self, context: Any, kind: Kind) -> None:
        instance = context["ti"]
        first_line = str(context.get("exception") or "no reason was given").strip().splitlines()[0]
        self.record(instance.dag_id, instance.run_id, instance.task_id, kind, first_line)

    def _newest(self) -> list[dict[str, Any]]:
        """The newest records, oldest first; a line that was cut off is left out."""
        if not self.file.exists():
            return []
        with self.file.open("rb") as lines:
            lines.seek(max(0, self.file.stat().st_size - NEWEST_BYTES))
            text = lines.read().decode("utf-8", "replace")
        found = []
        for line in text.splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                found.append(record)
        return found
