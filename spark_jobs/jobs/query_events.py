"""What happened to the streaming queries and their drivers: `_ops.query_events`, written as it happens and kept beyond the process."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from spark_jobs.io.ops import Ops
from spark_jobs.jobs.run import Run
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import BOOKS, QUERY_EVENTS

Event = Literal["started", "terminated", "stepped_aside", "resumed", "handed_over", "restarted", "waiting", "crash_loop"]
LONGEST_ERROR = 2000  # characters: a Java trace is of no use in a table


def record_event(run: Run, event: Event, *, table: str = "", error: BaseException | str | None = None, sentence: str = "") -> None:
    """Add one row. `table`: the query's name, or nothing for the driver as a whole. A run never fails for it: what is lost is said.

    `error` of a `terminated` tells a failure from an end that was asked for.
    """
    said = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error
    row = {
        "pipeline": run.pipeline.name, "table": table, "run_id": run.run_id, "event": event, "mode": run.mode,
        "error": said[:LONGEST_ERROR] if said else None, "sentence": sentence[:LONGEST_ERROR] or None, "host": socket.gethostname(),
        "pid": os.getpid(), "at": run.clock(),
    }  # fmt: skip
    try:
        run.ops.append(QUERY_EVENTS, [row])
    except Exception as fault:  # whatever it is, what the queries do matters more
        run.say(f"That {table or 'the driver'} {event.replace('_', ' ')} was not recorded: {type(fault).__name__}")


def newest_events(
    settings: Settings, pipeline: Pipeline, limit: int = 200, *, table: str | None = None, since: datetime | None = None
) -> list[dict[str, Any]]:
    """The newest events of a pipeline, newest first; `table`: only that query's ("" for the driver), `since`: at this instant or later."""
    equal: dict[str, object] = {"pipeline": pipeline.name} | ({} if table is None else {"table": table})
    rows = Ops(settings).read(QUERY_EVENTS, equal=equal, since={"at": since} if since else None)
    return list(reversed(rows.sort_by("at").to_pylist()))[:limit]


def newest_batches(settings: Settings, pipeline: Pipeline) -> list[dict[str, Any]]:
    """The newest batch of each table of the last two days, as its books say, in data order."""
    columns = ["table", "batch_id", "run_id", "equation", "finished_at"]
    lately = {"finished_at": datetime.now(UTC) - timedelta(days=2)}
    rows = Ops(settings).read(BOOKS, columns, equal={"pipeline": pipeline.name}, since=lately).sort_by("finished_at").to_pylist()
    newest = {row["table"]: row for row in rows}
    return [newest[str(table)] for table in pipeline.all_tables if str(table) in newest]
