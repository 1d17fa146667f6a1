"""A lake that another parser has filled, so that today's has something to mend: for replays that are killed on the way."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from spark_jobs.io.lease import Leases
from spark_jobs.jobs.replay import replay_files
from spark_jobs.jobs.replay_commit import Replayed
from spark_jobs.jobs.replay_quarantine import replay_quarantine
from spark_jobs.jobs.run import Run
from spark_jobs.pipelines.cloudtrail import silver
from spark_jobs.spec.tables import DECISIONS, TableId
from tests.builders.corpus import FOLDER
from tests.builders.disturbed import Scene
from tests.builders.events import event_text
from tests.builders.landing_files import document, packed
from tests.builders.stack import Stack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SILVER = TableId("silver", "cloudtrail_events")
WHOLE_SECONDS = r"\A\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ\z"  # written without thinking of fractions
FRACTION = {"eventTime": "2024-05-01T12:30:15.5Z"}
MARK = "files-1"


def land(stack: Stack, name: str, *texts: str) -> None:
    """One file of these records, listed."""
    stack.land(f"{FOLDER}/{name}.json.gz", packed(document([text.encode() for text in texts])))
    stack.discover()


def fill_with_a_broken_parser(stack: Stack, patch: pytest.MonkeyPatch) -> None:
    """Silver by a parser that knows no fractions: events 4 (twice), 5 (twice) and 7 are refused; 4 came in good order too, 6 has no id."""
    with patch.context() as broken:
        broken.setattr(silver, "EVENT_TIME", WHOLE_SECONDS)
        texts = [event_text(number) for number in (1, 2, 3)] + [event_text(number, **FRACTION) for number in (4, 4, 5, 5)]
        land(stack, "first", *texts, event_text(6, eventID=...), event_text(7, eventName=..., **FRACTION))
        land(stack, "second", event_text(4))
        assert stack.run("bronze", "silver") is None


def replay_chosen(stack: Stack, table: TableId = SILVER, **chosen: str) -> Replayed:
    """`replay_quarantine` under its lease, on the shared session."""
    run = _run(stack)
    with Leases(run.settings, [SILVER], run.run_id) as leases:
        return replay_quarantine(run, leases, table, **chosen)


def replay_landed(stack: Stack, mark: str = MARK) -> Replayed:
    """`replay_files` of all files in the ledger, under its lease, on the shared session."""
    run, files = _run(stack), [row["file_id"] for row in stack.rows("_ops.files", ["file_id"])]
    with Leases(run.settings, [SILVER], run.run_id) as leases:
        return replay_files(run, leases, files, mark)


def _run(stack: Stack) -> Run:
    assert stack._spark is not None
    run = Run(stack.settings, stack.pipeline, stack._next_run(), stack.clock, small=True)
    run._session.append(stack._spark)
    return run


class MisreadScene(Scene):
    """A lake with quarantined records that can be recovered, two events that are read otherwise today, and, if asked for, a held batch."""

    def __init__(self, folder: Path, spark: SparkSession, *, held: bool = False, **settings: Any) -> None:
        self.folder, self.spark, self.settings = folder, spark, {"gates": False}
        self.base = self._stack(folder / "base")
        with pytest.MonkeyPatch.context() as patch:
            declared = silver.parse_events
            patch.setattr(silver, "parse_events", lambda raw: _misread(declared(raw)))
            land(self.base, "misread", event_text(8, eventName="Misread"), event_text(9), event_text(10, eventName="Moved"))
            fill_with_a_broken_parser(self.base, patch)
        if held:
            self.settings, runs = {}, self.base._runs
            self.base = self._stack(folder / "base")
            self.base._runs = runs
            land(self.base, "odd", *[event_text(number, recipientAccountId="not-an-account") for number in (30, 31)], event_text(1))
            assert self.base.run("bronze", "silver") is None
            land(self.base, "thirty", event_text(30))
            assert self.base.run("bronze", "silver") is None
        self.settings = settings

    def decided(self, name: str) -> Stack:
        """A copy in which a person has released the held batch."""
        stack = self.copy(name)
        [batch] = {row["_batch_id"] for row in stack.rows(f"{SILVER}_held")}
        row = {"decision_id": "d", "pipeline": "cloudtrail", "table": str(SILVER), "batch_id": batch, "decision": "release", "who": "ana"}
        stack.ops.append(DECISIONS, [row | {"note": "", "decided_at": stack.clock()}])
        return stack


def _misread(parsed: DataFrame) -> DataFrame:
    agent = F.when(F.col("event_name") == "Misread", F.lit("misread")).otherwise(F.col("user_agent"))
    later = F.when(F.col("event_name") == "Moved", F.expr("event_time + interval 1 day")).otherwise(F.col("event_time"))
    return parsed.withColumn("user_agent", agent).withColumn("event_time", later).withColumn("event_date", F.to_date("event_time"))


def _work(run: Run, options: Any) -> dict[str, Any]:
    """All files in the ledger again, as a backfill's chunk does it."""
    from spark_jobs.spec.tables import FILES

    files = run.ops.read(FILES, ["file_id"])["file_id"].to_pylist()
    with Leases(run.settings, [SILVER], run.run_id) as leases:
        return {"sentence": replay_files(run, leases, files, MARK).sentence()}


if __name__ == "__main__":
    from spark_jobs.jobs.run import leave, run_job

    sys.argv[0] = "misread"
    leave(run_job("misread", _work))
