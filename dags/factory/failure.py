"""What happens when a task or a run fails: one sentence in the log, and one record that other programs can read."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_log = logging.getLogger(__name__)


class SayFailure:
    """Callbacks of a DAG.

    Each failure is one JSON line in `<home>/failures.jsonl`: at (UTC), dag_id, run_id, task_id (null for the run), sentence.
    """

    def __init__(self, home: Path) -> None:
        self.file = home / "failures.jsonl"

    def of_task(self, context: Any) -> None:
        """A task has failed for good; its own process calls this, so the exception is at hand."""
        instance = context["ti"]
        first_line = str(context.get("exception") or "no reason was given").strip().splitlines()[0]
        self._record(instance.dag_id, instance.run_id, instance.task_id, first_line)

    def of_run(self, context: Any) -> None:
        """The run has failed; called wherever the scheduler has its callbacks run, so the reasons are read from the file."""
        run = context["dag_run"]
        failed = [f"{told['task_id']}: {told['sentence']}" for told in self.records(run.run_id) if told["task_id"]]
        why = "; ".join(failed) or str(context.get("reason") or "its log says why")
        sentence = f"Run {run.run_id} of {run.dag_id} failed ({why}). What was published before stays."
        _log.error("%s", sentence)
        self._record(str(run.dag_id), str(run.run_id), None, sentence)

    def records(self, run_id: str) -> list[dict[str, Any]]:
        """What was recorded for one run, oldest first."""
        if not self.file.exists():
            return []
        told = (json.loads(line) for line in self.file.read_text(encoding="utf-8").splitlines() if run_id in line)
        return [record for record in told if record["run_id"] == run_id]

    def _record(self, dag_id: str, run_id: str, task_id: str | None, sentence: str) -> None:
        record = {"at": datetime.now(UTC).isoformat(), "dag_id": dag_id, "run_id": run_id, "task_id": task_id, "sentence": sentence}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(record, ensure_ascii=False) + "\n")
