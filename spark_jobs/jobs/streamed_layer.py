"""One layer of a continuous driver: its query, kept running as long as the driver lives and the table is its turn.

The query ends at a batch boundary, and begins again from its checkpoint, when another writer waits for one of its tables, when a person
has decided about one of its batches, when parked events are due, and when its batches should be of another size. A stopped gate ends it
until a person has decided; the other layers go on with what they have.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Literal

from spark_jobs.io.lease import Leases
from spark_jobs.io.lease_holder import CONTINUOUS
from spark_jobs.io.parked import due_rids
from spark_jobs.io.work import pending_files, undone_decisions
from spark_jobs.jobs.ending import Ended, Ending
from spark_jobs.jobs.ingest_bronze import ledger_files_per_batch
from spark_jobs.jobs.layer_start import has_source, source_of, start_layer
from spark_jobs.jobs.pace import Pace, sized
from spark_jobs.jobs.query_events import Event, record_event
from spark_jobs.jobs.run import Run
from spark_jobs.jobs.storage_faults import storage_fault
from spark_jobs.spec.errors import GateStopped, LeaseLost
from spark_jobs.spec.tables import Layer

LOOK_EVERY_S = 1.0  # how soon another writer, a fault or the end is seen
ASK_EVERY = 10  # looks; how soon a decision of a person or a parked event that is due is taken up

Pause = Literal["end", "turn", "again"]


class StreamedLayer(threading.Thread):
    """`start` it, `join` it once the driver's ending has come; `fault` is what ended it before."""

    def __init__(self, run: Run, layer: Layer, ending: Ending, until: float) -> None:
        super().__init__(name=f"{run.pipeline.name}-{layer}", daemon=True)
        self.layer, self.fault, self.stopped = layer, None, ""
        self.has_run = False
        self._run, self._ending, self._until = run, ending, until
        self._tables = run.pipeline.tables(layer)
        self.pace = run.pace or Pace(run, query_of(run, layer), None)
        self.query_name = query_of(run, layer)
        self._lost: LeaseLost | None = None
        self._seen: set[str] = set()  # decisions and parked events that a start of the query has taken up, or could not
        self._is_waiting_said = False

    fault: BaseException | None

    def run(self) -> None:
        try:
            with suppress(Ended):
                self._live()
            if self.has_run:
                self._tell("terminated", sentence=self._ending.sentence, quietly=True)
        except BaseException as raised:
            fault = storage_fault(raised, self._run.settings.lake_root) or raised
            self.fault = fault
            self._tell("terminated", fault)
            self._ending.ask("fault", str(fault))
        finally:
            self._run.close()

    def _live(self) -> None:
        while not has_source(self._run, self.layer):
            if not self._is_waiting_said:
                self._is_waiting_said = True
                self._run.say(f"{self.layer}: its source {source_of(self._run.pipeline, self.layer)} has no data yet.")
            if self._ending.wait(LOOK_EVERY_S):
                return
        pause: Pause = "again"
        while pause != "end":
            leases = self._leases()
            if pause == "turn":
                self._let_others(leases)
            with leases:
                try:
                    pause = self._stream(leases, "started" if not self.has_run else "resumed")
                except GateStopped as stop:
                    self.stopped = str(stop)
                if pause == "turn":
                    waits = ", ".join(sorted({mark.owner for mark in leases.marks()}))
                    self._tell("stepped_aside", sentence=f"{waits or 'Another writer'} waits for {self.query_name}.")
            if self.stopped:
                pause = self._wait_for_decision()

    def _leases(self) -> Leases:
        return Leases(
            self._run.settings, self._tables, self._run.run_id, self._on_lost, mode=CONTINUOUS, until=self._until, say=self._run.say,
            still=self._ending.check,
        )  # fmt: skip

    def _stream(self, leases: Leases, event: Event) -> Pause:
        """The query, until there is a reason to end it. Raises what its batches raise."""
        self._seen |= self._news()
        if self._run.pace:
            self._run.pace.begin_query()
        query = start_layer(self.layer)(self._run, leases)
        self._tell(event, sentence=f"{self.query_name}: running, {self._run.trigger}.")
        self.has_run, looks = True, 0
        pause: Pause | None = None
        while pause is None and query.is_running:
            self._ending.wait(LOOK_EVERY_S)
            looks += 1
            pause = self._reason_to_pause(leases, is_time_to_ask=looks % ASK_EVERY == 0)
        query.end()
        query.wait()
        if self._lost is not None:
            raise self._lost
        return pause or "again"

    def _reason_to_pause(self, leases: Leases, *, is_time_to_ask: bool) -> Pause | None:
        if self._ending.why or self._lost is not None:
            return "end"
        if any(mark.kind != "continuous" for mark in leases.marks()):
            return "turn"
        if is_time_to_ask and (self._news() - self._seen or self._is_outgrown()):
            return "again"
        return None

    def _is_outgrown(self) -> bool:
        """True when the query should run with another limit. Bronze's is in what the looks enter; only what others entered needs more."""
        run = self._run
        if self.layer != "bronze":
            return run.pace is not None and run.pace.is_outgrown
        if run.pace and run.pace.size:
            run.batch_limit[self.query_name] = run.pace.size.limit
        pending = pending_files(run.settings, run.pipeline)
        wanted = ledger_files_per_batch(run, pending)
        return wanted * 2 <= run.ledger_files or (pending.chunks > run.ledger_files and wanted >= run.ledger_files * 1.5)

    def _news(self) -> set[str]:
        """Decisions about batches of this layer that no batch's books record yet, and parked events whose time has come."""
        run = self._run
        mine = {str(table) for table in self._tables}
        found = {row["decision_id"] for row in undone_decisions(run.settings, run.pipeline) if row["table"] in mine}
        if self.layer == "silver":
            found |= set(due_rids(run.settings, run.pipeline, run.clock()))
        return found

    def _let_others(self, leases: Leases) -> None:
        """Until nobody waits any more: taken back before the one who waits has looked, the table would never be its turn."""
        while any(mark.kind != "continuous" for mark in leases.marks()):
            if self._ending.wait(0.2):
                raise Ended

    def _wait_for_decision(self) -> Pause:
        """A stopped gate is told once; the query waits, its tables free for others, until a person has decided about one of its batches."""
        self._tell("waiting", GateStopped(self.stopped), sentence=self.stopped)
        while not self._ending.wait(LOOK_EVERY_S * ASK_EVERY / 2):
            if self._news() - self._seen:
                self.stopped = ""
                return "again"
        return "end"

    def _on_lost(self, lost: LeaseLost) -> None:
        self._lost = lost

    def _tell(self, event: Event, error: BaseException | None = None, *, sentence: str = "", quietly: bool = False) -> None:
        record_event(self._run, event, table=self.query_name, error=error, sentence=sentence)
        if sentence and not quietly:
            self._run.say(sentence)


def query_of(run: Run, layer: Layer) -> str:
    """The name of the layer's query: the table it writes, or gold's clock."""
    return str(run.pipeline.gold_stream if layer == "gold" else run.pipeline.tables(layer)[0])


def layer_run(run: Run, layer: Layer, trigger: str) -> Run:
    """The run of one layer: its own trigger, and a session of its own beside the others' in the one JVM."""
    settings, query = run.settings.model_copy(update={"trigger": trigger}), query_of(run, layer)
    own = Run(settings, run.pipeline, run.run_id, run.clock, backfill_id=run.backfill_id, batch_limit=run.batch_limit)
    own._session.append(run.spark.newSession())
    own.pace = Pace(own, query, None if layer == "gold" else sized(run))
    return own
