"""A reader beside the writers: whole batches only, and gold at a state that silver had."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

import pyarrow.compute as pc

from spark_jobs.io.lake import lake_table
from spark_jobs.io.work import silver_app
from tests.builders.stack import Stack

EVERY_S = 1.0


@dataclass
class Reader:
    """`start` it, `stop` it; `torn` says what no reader should ever see."""

    stack: Stack
    looks: int = 0
    torn: list[str] = field(default_factory=list)
    _batches: dict[tuple[str, str], int] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        self._look()

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            try:
                self._look()
            except Exception as fault:  # told at the end, with the rest
                self.torn.append(f"a reader was refused: {type(fault).__name__}: {str(fault).splitlines()[0]}")

    def _look(self) -> None:
        pipeline = self.stack.pipeline
        for table in (pipeline.bronze_table, pipeline.silver_table):
            rows = self.stack.arrow(str(table), ["_batch_id"])
            for batch, count in Counter(rows["_batch_id"].to_pylist() if rows.num_rows else []).items():
                known = self._batches.setdefault((str(table), batch), count)
                if known != count:
                    self.torn.append(f"{table}: batch {batch} had {known} rows, then {count}")
                    self._batches[str(table), batch] = count
        gold = lake_table(self.stack.settings, pipeline.gold_tables[0])
        if gold is not None:
            version = gold.transaction_version(silver_app(self.stack.settings, pipeline))  # of the one state that was opened
            total = pc.sum(gold.to_pyarrow_table(columns=["event_count"])["event_count"]).as_py() or 0
            there = self.stack.arrow(str(pipeline.silver_table), ["_rid"], version=version).num_rows
            if total != there:
                self.torn.append(f"{pipeline.gold_tables[0]} counts {total} events at silver version {version}, which has {there}")
        self.looks += 1
