"""What the queries of a pipeline do at this moment: cheap enough to be asked every second, without a JVM and without reading history."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from spark_jobs.io.backlog import Amount, Backlog
from spark_jobs.io.lease import Lease
from spark_jobs.io.lease_holder import Holder
from spark_jobs.io.query_state import QueryStates
from spark_jobs.io.recent_rows import RecentRows
from spark_jobs.io.relay import driver_and_epoch
from spark_jobs.io.work import bronze_checkpoint, gold_checkpoint, silver_checkpoint
from spark_jobs.spec.errors import CheckpointDamaged
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import FILES, INCIDENTS, LAYERS, PROGRESS, VERDICTS

Row = dict[str, Any]

PROGRESS_FILES = 60  # of some rows each: the last twenty batches of three queries
VERDICT_FILES = 20  # a file per gate: the last of each of six tables
INCIDENT_FILES = 200  # a few per incident; one that has fired for longer is in `assay alerts`
SPARK_BATCHES = 20
_CHECKPOINTS = {"bronze": bronze_checkpoint, "silver": silver_checkpoint, "gold": gold_checkpoint}


class Live:
    """`look` as often as wanted: what was read once is kept."""

    def __init__(self, settings: Settings, pipeline: Pipeline) -> None:
        self._settings, self._pipeline = settings, pipeline
        self._progress = RecentRows(settings, PROGRESS, "at", files=PROGRESS_FILES)
        self._verdicts = RecentRows(settings, VERDICTS, "evaluated_at", files=VERDICT_FILES)
        self._incidents = RecentRows(settings, INCIDENTS, "at", files=INCIDENT_FILES)
        self._states = QueryStates(settings)
        sources = {"bronze": FILES, "silver": pipeline.bronze_table, "gold": pipeline.silver_table}
        self._backlogs = {layer: Backlog(settings, pipeline, source) for layer, source in sources.items()}

    def look(self, now: datetime) -> Row:
        """`driver` (None where the pipeline is not run continuously), `alerts` that fire, and `queries`: one per layer.

        None stands for what is not known.
        """
        pipeline = self._pipeline
        epoch, driver = driver_and_epoch(self._settings, pipeline)
        rows = [row for row in self._progress.rows() if row["pipeline"] == pipeline.name]
        gates = [row for row in self._verdicts.rows() if row["pipeline"] == pipeline.name and row["layer"] != "tables"]
        return {
            "pipeline": pipeline.name,
            "at": now,
            "driver": _driver(driver, epoch) if driver else None,
            "queries": [self._query(layer, rows, gates, now) for layer in LAYERS],
            "alerts": self._alerts(),
        }

    def _query(self, layer: str, rows: list[Row], gates: list[Row], now: datetime) -> Row:
        tables = self._pipeline.tables(layer)  # type: ignore[arg-type]  # one of LAYERS
        name = str(self._pipeline.gold_stream if layer == "gold" else tables[0])
        own = [row for row in rows if row["table"] == name and row["phases"]]  # batches of the query, not of a person's decision
        last: Row = own[-1] if own else {}
        judged = [row for row in gates if row["table"] in set(map(str, tables))]
        lease = Lease(self._settings, tables[0], "")
        holder, state = lease.holder(), self._states.read(name) or {}
        is_running = bool(holder and (state.get("host"), state.get("pid")) == (holder.host, holder.pid))
        newest = last.get("newest_event_at")
        left = self._left(layer)
        return {
            "table": name,
            "is_running": is_running,
            "message": state.get("message") if is_running else None,
            "is_data_available": state.get("is_data_available") if is_running else None,
            "is_trigger_active": state.get("is_trigger_active") if is_running else None,
            "holder": holder.owner if holder else None,
            "epoch": lease.newest_epoch(),
            **{name: last.get(name) for name in (
                "batch_id", "mode", "host", "pid", "input_rows", "input_rows_per_s", "processed_rows_per_s", "duration_ms",
                "batch_bytes", "batch_limit", "newest_event_at",
            )},
            "run_id": state.get("run_id") if is_running else last.get("run_id"),
            "last_batch_at": last.get("at"),
            "last_batch_age_s": (now - last["at"]).total_seconds() if last else None,
            "freshness_s": max(0.0, (now - newest).total_seconds()) if newest else None,
            "lag": {
                "files": left.files, "bytes": left.bytes, "rows": left.rows,
                "minutes": round(max(0.0, now.timestamp() - left.since) / 60, 2) if left.since else 0.0,
            } if left else None,
            "gate": judged[-1]["outcome"] if judged else None,
            "recent_rows": [row["input_rows"] or 0 for row in own[-SPARK_BATCHES:]],
        }  # fmt: skip

    def _alerts(self) -> list[Row]:
        """The incidents that fire now, the oldest first: `rule`, `subject`, `sentence`, `since`."""
        newest: dict[str, Row] = {}
        for row in self._incidents.rows():
            if row["pipeline"] != self._pipeline.name or row["state"] not in ("firing", "recovered"):
                continue
            if newest.get(row["incident_id"], row)["state"] == "firing":  # of two at one instant the end is the newer
                newest[row["incident_id"]] = row
        names = ("rule", "subject", "sentence", "since")
        return [{name: row[name] for name in names} for row in newest.values() if row["state"] == "firing"]

    def _left(self, layer: str) -> Amount | None:
        """What the query has not committed as read; None where its log or checkpoint does not tell."""
        try:
            at = _CHECKPOINTS[layer](self._settings, self._pipeline).position()
            return self._backlogs[layer].take(at, at)[1]
        except (FileNotFoundError, CheckpointDamaged):
            return None


def _driver(holder: Holder, epoch: int) -> Row:
    return {
        "owner": holder.owner, "host": holder.host, "pid": holder.pid, "epoch": epoch,
        "since": datetime.fromtimestamp(holder.since, UTC) if holder.since else None,
        "until": datetime.fromtimestamp(holder.until, UTC) if holder.until else None,
    }  # fmt: skip
