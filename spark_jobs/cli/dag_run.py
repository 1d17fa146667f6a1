"""One run of a DAG in one process with its real operators (`airflow dags test`), shown while it goes."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_jobs.cli.airflow_home import PROJECT
from spark_jobs.cli.processes import end_family, start
from spark_jobs.cli.terminal import console, inert

# A job's own line in Airflow's log: "… 12:00:01 what it did      [logger] loc=…"
_JOB_LINE = re.compile(r" \d\d:\d\d:\d\d (\S.*?)\s+\[[\w.]+\] loc=|\[DAG TEST\] starting task_id=(\w+)")
GRACE_S = 3  # a run in one process does not heed the request to end, and loses nothing by being killed
_MARK = {"success": "✓", "failed": "✗", "skipped": "-", "retry": "↻"}
_STYLE = {"success": "green", "failed": "bold red", "skipped": "dim", "retry": "yellow"}


@dataclass
class TaskState:
    """What is known of one task of the run."""

    task_id: str
    state: str = "running"
    seconds: float = 0.0
    started: float = 0.0
    error: str | None = None


@dataclass
class DagRunResult:
    """How a run ended: its id (empty when it never began), exit code, and each try of each task in the order they ran."""

    run_id: str = ""
    exit_code: int = 0
    tasks: dict[str, TaskState] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)  # by task: the newest line that its job wrote
    speaker: str = ""

    @property
    def failure(self) -> str:
        """The sentence of the first task that failed for good, empty when none did."""
        return next((task.error or f"task {task.task_id} failed" for task in self.tasks.values() if task.state == "failed"), "")


def run_dag(dag_id: str, env: Mapping[str, str], log: Path) -> DagRunResult:
    """Run the DAG once; its whole output goes to `log`, the state of each task to the screen. Ends its family on any way out."""
    log.parent.mkdir(parents=True, exist_ok=True)
    progress = log.with_suffix(".jsonl")
    progress.unlink(missing_ok=True)
    result = DagRunResult()
    began = time.time()
    with log.open("wb") as output, _screen() as show:
        command = [str(Path(sys.executable).parent / "airflow"), "dags", "test", dag_id]
        process = start(command, env={**env, "ASSAY_TASK_EVENTS": str(progress), "NO_COLOR": "1"}, cwd=PROJECT, log=output, grace_s=GRACE_S)
        try:
            events, said = events_of(progress), _whole_lines(log)
            while process.poll() is None:
                _take(result, next(events))
                _take_notes(result, next(said))
                show(result, time.time() - began)
                time.sleep(0.2)
            _take(result, next(events))
            _take_notes(result, next(said))
            show(result, time.time() - began)
            result.exit_code = process.returncode
        finally:
            end_family(GRACE_S)
    return result


def events_of(progress: Path) -> Iterator[list[dict[str, Any]]]:
    """Each time it is asked: the events written since."""
    for lines in _whole_lines(progress):
        yield [json.loads(line) for line in lines.splitlines()]


def _whole_lines(file: Path) -> Iterator[bytes]:
    """Each time it is asked: what was written since to a file that may not be there yet, up to the last line's end."""
    position = 0
    while True:
        lines = b""
        if file.exists():
            with file.open("rb") as opened:
                opened.seek(position)
                text = opened.read()
            lines = text[: text.rfind(b"\n") + 1]
            position += len(lines)
        yield lines


def _take(result: DagRunResult, events: list[dict[str, Any]]) -> None:
    for event in events:
        result.run_id = event["run_id"]
        key = f"{event['task_id']} {event['try']}"
        task = result.tasks.setdefault(key, TaskState(event["task_id"]))
        task.state, task.error = event["state"], event["error"]
        if event["state"] == "running":
            task.started = event["at"]
        elif task.started:
            task.seconds = event["at"] - task.started


def _take_notes(result: DagRunResult, output: bytes) -> None:
    """Each line of a job becomes the note of the task under whose heading it stands in the log."""
    for said, started in _JOB_LINE.findall(output.decode("utf-8", "replace")):
        if started:
            result.speaker = started
        else:
            result.notes[result.speaker] = said


def _remark(result: DagRunResult, task: TaskState) -> str:
    if task.state == "retry":
        return f"{task.error} Trying again soon."
    return task.error or result.notes.get(task.task_id, "")


@contextmanager
def _screen() -> Iterator[Any]:
    """A live table on a terminal, else one plain line for each task that ends."""
    if not sys.stdout.isatty():
        told: set[str] = set()

        def lines(result: DagRunResult, elapsed: float) -> None:
            for key, task in result.tasks.items():
                if task.state != "running" and key not in told:
                    told.add(key)
                    print(
                        f"  {_MARK.get(task.state, '?')} {task.task_id:<14} {task.seconds:6.1f} s   {inert(_remark(result, task))}",
                        flush=True,
                    )

        yield lines
        return
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.table import Table
    from rich.text import Text

    def table(result: DagRunResult, elapsed: float) -> Table:
        grid = Table.grid(padding=(0, 2))
        for task in result.tasks.values():
            running = task.state == "running"
            mark = Spinner("dots") if running else Text(_MARK.get(task.state, "?"), style=_STYLE.get(task.state, ""))
            seconds = time.time() - task.started if running else task.seconds
            note = Text(inert(_remark(result, task)), style="" if task.error else "dim", overflow="ellipsis", no_wrap=not task.error)
            grid.add_row(mark, task.task_id, Text(f"{seconds:5.1f} s", justify="right"), note)
        waiting = "starting Airflow …" if not result.tasks else "elapsed"
        grid.add_row("", waiting, Text(f"{elapsed:5.1f} s", justify="right"), "")
        return grid

    with Live(console=console(), refresh_per_second=5) as live:
        yield lambda result, elapsed: live.update(table(result, elapsed))
