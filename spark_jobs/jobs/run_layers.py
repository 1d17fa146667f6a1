"""The three layers in one driver: one Spark submit instead of three, the gates in between inside it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

from spark_jobs.io.lake import lake_table
from spark_jobs.io.lease import Leases
from spark_jobs.io.work import is_small, undone_decisions, unfinished_layers
from spark_jobs.jobs.query import LayerQuery
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.jobs.run_cost import record_cost
from spark_jobs.spec.errors import GateStopped
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.tables import FILES, LAYERS, Layer, TableId

LOOK_EVERY_S = 1.0  # how soon a layer starts once its source has data, and how soon a request to end is seen


def run_layers(run: Run, layers: Sequence[Layer] = LAYERS) -> dict[str, Any]:
    """Run the layers in data order under the job's trigger. A stopped gate ends the run without an error: the gate task says it."""
    run.small = is_small(run.settings, run.pipeline)
    if run.settings.gates and _has_work(run, layers):
        warm_up_gates()
    done: list[Layer] = []
    stopped = None
    try:
        if run.trigger.ends:
            run_in_turn(run, layers, done)
        else:
            _run_together(run, layers, done)
    except GateStopped as stop:
        stopped = str(stop)
        run.say(stopped)
    finally:
        if run.has_session:
            record_cost(run, _job(run, layers), done, stopped=stopped is not None)
            run.spark.stop()
    return {"layers": done, "stopped": stopped}


def _job(run: Run, layers: Sequence[Layer]) -> str:
    if not run.trigger.ends:
        return "continuous"  # its time is mostly waiting
    return "run_layers" if len(layers) > 1 else {"bronze": "ingest_bronze", "silver": "build_silver", "gold": "build_gold"}[layers[0]]


def run_in_turn(run: Run, layers: Sequence[Layer], done: list[Layer]) -> None:
    """One layer after the other, each under its tables' leases; `done` gets those that came through."""
    for layer in layers:
        if not _has_source(run, layer):
            run.say(f"{layer}: its source {_source(run.pipeline, layer)} has no data yet.")
            continue
        with Leases(run.settings, run.pipeline.tables(layer), run.run_id, yields=bool(run.backfill_id), say=run.say) as leases:
            _start(layer)(run, leases).wait()
        done.append(layer)


def _run_together(run: Run, layers: Sequence[Layer], done: list[Layer]) -> None:
    """All layers at once under a trigger that does not end, each as soon as its source has data, until SIGTERM or SIGINT."""
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    tables = [table for layer in layers for table in run.pipeline.tables(layer)]
    queries: list[LayerQuery] = []
    with Leases(run.settings, tables, run.run_id, yields=bool(run.backfill_id), say=run.say) as leases:
        try:
            while not ending.is_set():
                for layer in layers:
                    if layer not in done and _has_source(run, layer):
                        queries.append(_start(layer)(run, leases))
                        done.append(layer)
                        run.say(f"{layer}: running, {run.trigger}.")
                if any(not query.is_running for query in queries):
                    break
                ending.wait(LOOK_EVERY_S)
        finally:
            for query in queries:
                query.end()
        for query in queries:
            query.wait()


def _start(layer: Layer) -> Callable[[Run, Leases], LayerQuery]:
    from spark_jobs.jobs.build_gold import start_gold
    from spark_jobs.jobs.build_silver import start_silver
    from spark_jobs.jobs.ingest_bronze import start_bronze

    return {"bronze": start_bronze, "silver": start_silver, "gold": start_gold}[layer]


def _has_source(run: Run, layer: Layer) -> bool:
    return lake_table(run.settings, _source(run.pipeline, layer)) is not None


def _source(pipeline: Pipeline, layer: Layer) -> TableId:
    return {"bronze": FILES, "silver": pipeline.bronze_table, "gold": pipeline.silver_table}[layer]


def _has_work(run: Run, layers: Sequence[Layer]) -> bool:
    return (
        bool(set(layers) & set(unfinished_layers(run.settings, run.pipeline)) or undone_decisions(run.settings, run.pipeline))
        or len(layers) > 1
    )


def warm_up_gates() -> None:
    """Importing Great Expectations takes seconds: beside the JVM's start, not after it."""
    import pyspark.sql  # noqa: F401  # whole before the other thread asks for it: two threads in one package's import deadlock or fail

    from expectations.gate import warm_up

    threading.Thread(target=warm_up, name="gate-warm-up", daemon=True).start()


def _work(run: Run, options: object) -> dict[str, Any]:
    """Bronze, silver and gold in one session."""
    return run_layers(run)


if __name__ == "__main__":
    leave(run_job("run_layers", _work))
