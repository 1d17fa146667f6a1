"""What failed, and what worked after it: of streaming queries from `_ops.query_events`, of Airflow's tasks from `<home>/failures.jsonl`."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.io.ops import Ops
from spark_jobs.report.notice import masked
from spark_jobs.spec import errors
from spark_jobs.spec.alert_facts import LateRun, Mark
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import PROGRESS, QUERY_EVENTS

Row = dict[str, Any]
FAILURES = "failures.jsonl"
NEWEST_BYTES = 1_000_000  # some thousand records; what failed before that has long been told
DRIVER_KILLED = "Killed"
WITH_ITS_DRIVER = timedelta(minutes=2)  # a query that fails takes its driver with it: one failure


def query_marks(settings: Settings, pipeline: Pipeline, *, since: datetime, books: Callable[[], pa.Table]) -> list[Mark]:
    """Failures of queries and drivers, their restarts, and batches that were done after them."""
    ops = Ops(settings)
    columns = ["table", "run_id", "event", "error", "sentence", "host", "pid", "at"]
    events = ops.read(QUERY_EVENTS, columns, equal={"pipeline": pipeline.name}, since={"at": since}).sort_by("at").to_pylist()
    events = _with_silent_ends(events)
    failed = [row for row in events if row["event"] == "crash_loop" or (row["event"] == "terminated" and row["error"])]
    if not failed:
        return []
    of_queries = [row for row in failed if row["table"]]
    marks = []
    for row in events:
        subject = row["table"] or f"the driver of {pipeline.name}"
        if row["event"] == "crash_loop":
            marks.append(Mark(subject, "crash_loop", row["at"], _said(row)))
        elif row in failed:
            if row["table"] or not any(_is_same_failure(row, one) for one in of_queries):
                marks.append(Mark(subject, "failed", row["at"], _said(row)))
        elif row["event"] in ("started", "resumed", "restarted"):
            marks.append(Mark(subject, "begun", row["at"]))
    subjects = {mark.subject for mark in marks if mark.kind != "begun"}
    first = min(row["at"] for row in failed)
    booked = books().filter(pc.field("finished_at") > first)
    done = list(zip(booked["table"].to_pylist(), booked["finished_at"].to_pylist(), strict=True))
    progress = ops.read(PROGRESS, ["table", "at"], equal={"pipeline": pipeline.name}, since={"at": first}).to_pylist()
    done += [(row["table"], row["at"]) for row in progress]
    return marks + [Mark(subject, "well", at) for table, at in done for subject in subjects if _is_work_of(pipeline, table, subject)]


def _with_silent_ends(events: Sequence[Row]) -> list[Row]:
    """The events, and an end for each driver that another one followed before it had said that it ended: it was killed."""
    drivers = [row for row in events if not row["table"]]
    ended = {_process(row) for row in drivers if row["event"] == "terminated"}
    starts = [row for row in drivers if row["event"] == "started"]
    killed = []
    for one, following in pairwise(starts):
        if _process(one) != _process(following) and _process(one) not in ended:
            error = f"{DRIVER_KILLED}: it ended without a word (killed, or its machine went down)."
            killed.append(one | {"event": "terminated", "error": error, "at": following["at"] - timedelta(milliseconds=1)})
    return sorted([*events, *killed], key=lambda row: row["at"])


def _process(row: Row) -> tuple[object, ...]:
    return row["run_id"], row["host"], row["pid"]


def _is_same_failure(driver: Row, query: Row) -> bool:
    return bool(driver["run_id"] == query["run_id"] and abs(driver["at"] - query["at"]) < WITH_ITS_DRIVER)


def _is_work_of(pipeline: Pipeline, table: str, subject: str) -> bool:
    """A driver works when any of its queries does; gold's one query writes all gold tables."""
    if subject.startswith("the driver"):
        return True
    return table == subject or (subject == str(pipeline.gold_stream) and table.startswith("gold."))


def _said(row: Row) -> str:
    """Our own sentences as they are; of what another program says, the values masked."""
    error = str(row["error"] or "")
    kind, _, text = error.partition(": ")
    if kind == DRIVER_KILLED or isinstance(getattr(errors, kind, None), type):
        return text
    return str(row["sentence"] or "") if row["event"] == "crash_loop" and row["sentence"] else masked(error or str(row["sentence"] or ""))


def task_marks(settings: Settings, pipeline: Pipeline, *, since: datetime) -> list[Mark]:
    """Failures of tasks and runs of the pipeline's DAGs, also of tries that were retried, and the successes after them."""
    marks: list[Mark] = []
    subjects: dict[str, set[str]] = defaultdict(set)
    told_of: set[str] = set()
    for record in records(settings, pipeline, since):
        dag, task, kind, at = record["dag_id"], record["task_id"], record.get("kind", "failed"), record["at"]
        subject = f"{dag}.{task}" if task else dag
        if kind in ("failed", "retried"):
            if task is None and record["run_id"] in told_of:
                continue  # the run failed because its task did
            told_of.add(record["run_id"])
            subjects[dag].add(subject)
            again = " (tried again)" if kind == "retried" else ""
            marks.append(Mark(subject, "failed", at, masked(record["sentence"]) + again))
        elif kind == "succeeded":
            marks += [Mark(one, "well", at) for one in ([subject] if task else sorted(subjects[dag]))]
    return marks


def late_runs(settings: Settings, pipeline: Pipeline, *, since: datetime) -> list[LateRun]:
    """Runs that were not done at their deadline; over when the run has ended, or a later one of its DAG has succeeded."""
    late: dict[str, LateRun] = {}
    for record in records(settings, pipeline, since):
        run, dag, kind = record["run_id"], record["dag_id"], record.get("kind", "failed")
        if kind == "deadline":
            late.setdefault(run, LateRun(dag, run, record["at"], record["sentence"], None))
        elif record["task_id"] is None:
            for name, one in late.items():
                if one.ended is None and (name == run or (kind == "succeeded" and one.dag_id == dag)):
                    late[name] = replace(one, ended=record["at"])
    return list(late.values())


def records(settings: Settings, pipeline: Pipeline, since: datetime) -> Iterator[Row]:
    """The newest records of the pipeline's DAGs, oldest first. A line that was cut off by a kill is left out."""
    file = settings.home.absolute() / FAILURES
    if not file.exists():
        return
    with file.open("rb") as lines:
        lines.seek(max(0, file.stat().st_size - NEWEST_BYTES))
        text = lines.read().decode("utf-8", "replace")
    for line in text.splitlines():
        try:
            record = json.loads(line)
            record["at"] = datetime.fromisoformat(record["at"])
            is_ours = record["dag_id"].startswith(f"{pipeline.name}_") and record["at"] >= since
        except (ValueError, KeyError, TypeError):
            continue
        if is_ours:
            yield record
