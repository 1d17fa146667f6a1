"""One process of one Airflow run: its settings, session, tables and clock; and the frame in which every job's `main` runs."""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from spark_jobs.io.ops import Ops
from spark_jobs.io.parent_guard import guard_parent
from spark_jobs.io.work import undone_decisions
from spark_jobs.jobs.storage_faults import storage_fault
from spark_jobs.spec.errors import AssayError, ConfigurationFault
from spark_jobs.spec.pipeline import Pipeline, load_pipeline
from spark_jobs.spec.settings import Settings, load_settings
from spark_jobs.spec.tables import TableId
from spark_jobs.spec.triggers import Trigger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.jobs.pace import Pace
    from spark_jobs.jobs.progress import Progress


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Run:
    """What a job works with. The session is opened when first used, so a run with nothing to do starts no JVM."""

    settings: Settings
    pipeline: Pipeline
    run_id: str
    clock: Callable[[], datetime] = utc_now
    small: bool = False
    backfill_id: str = ""  # the backfill that this process works for; live writers go before it
    batch_limit: dict[str, int] = field(default_factory=dict)  # bytes that a batch of a query may take at most, by the query's name
    ledger_files: int = 0  # that bronze's query takes into one batch at most
    pace: Pace | None = None  # of the one query that a layer of a continuous driver runs
    _session: list[SparkSession] = field(default_factory=list)

    @cached_property
    def ops(self) -> Ops:
        return Ops(self.settings)

    @cached_property
    def progress(self) -> Progress:
        """What keeps the progress of this run's batches."""
        from spark_jobs.jobs.progress import Progress

        return Progress(self)

    @cached_property
    def trigger(self) -> Trigger:
        return Trigger.parse(self.settings.trigger)

    @property
    def mode(self) -> str:
        """`continuous` for a process that takes batches until it is ended, else `once`."""
        return "once" if self.trigger.ends else "continuous"

    @property
    def spark(self) -> SparkSession:
        if not self._session:
            from spark_jobs.io.session import open_session

            self._session.append(open_session(self.settings, f"assay {self.pipeline.name} {self.run_id}", small=self.small))
        return self._session[0]

    @property
    def has_session(self) -> bool:
        return bool(self._session)

    def decision(self, table: TableId, batch_id: str) -> dict[str, str] | None:
        """What a person decided about a held or stopped batch and no run has carried out yet."""
        for row in undone_decisions(self.settings, self.pipeline):
            if (row["table"], row["batch_id"]) == (str(table), batch_id):
                return row
        return None

    def close(self) -> None:
        """What is still to be told of this run's batches is written; its tables were complete before."""
        if "progress" in self.__dict__:
            self.progress.close()

    def say(self, sentence: str) -> None:
        """One line in the log."""
        print(f"{self.clock():%H:%M:%S} {sentence}", file=sys.stderr, flush=True)


def leave(code: int) -> NoReturn:
    """End the process at once: storage threads that are still at work can abort an interpreter that ends in its own time."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run_job(
    name: str,
    work: Callable[[Run, argparse.Namespace], dict[str, Any]],
    add_options: Callable[[argparse.ArgumentParser], None] | None = None,
) -> int:
    """Parse the command line, do the work, print its result as one JSON line; a foreseen fault becomes one sentence and its exit code."""
    guard_parent()
    parser = _Parser(prog=name, description=work.__doc__)
    parser.add_argument("--pipeline", required=True, help="name of the pipeline, e.g. cloudtrail")
    parser.add_argument("--run-id", default="", help="the run that asks for it; a name is made when there is none")
    if add_options:
        add_options(parser)
    run: Run | None = None
    try:
        options = parser.parse_args()
        run = Run(load_settings(), load_pipeline(options.pipeline), options.run_id or f"manual-{uuid.uuid4().hex[:8]}")
        result = work(run, options)
    except AssayError as fault:
        return _end(name, run, fault)
    except Exception as fault:
        if foreseen := storage_fault(fault, run.settings.lake_root if run else ""):
            return _end(name, run, foreseen)
        traceback.print_exc()  # a defect: whoever mends it needs all of it
        if run is not None:
            run.close()
        unforeseen = f"An unforeseen {type(fault).__name__}, told above; what was committed stays. Please report it."
        print(f"{name}: {unforeseen}", file=sys.stderr)
        print(json.dumps({"error": type(fault).__name__, "sentence": unforeseen}))
        return 1
    run.close()
    print(json.dumps(result, default=str), flush=True)
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigurationFault(f"{message[:1].upper()}{message[1:]}. `python -m spark_jobs.jobs.{self.prog} --help` lists the options.")


def _end(name: str, run: Run | None, fault: AssayError) -> int:
    """The sentence comes last, after what there was to say of the run's batches."""
    if run is not None:
        run.close()
    print(f"{name}: {fault}", file=sys.stderr)
    print(json.dumps({"error": type(fault).__name__, "sentence": str(fault)}))
    return fault.exit_code
