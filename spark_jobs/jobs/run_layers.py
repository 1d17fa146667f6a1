"""The three layers in one driver: one Spark submit instead of three, the gates in between inside it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from spark_jobs.io.lease import Leases
from spark_jobs.io.relay import run_continuously
from spark_jobs.io.work import is_small, undone_decisions, unfinished_layers
from spark_jobs.jobs.layer_start import has_source, source_of, start_layer
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.jobs.run_cost import record_cost
from spark_jobs.spec.errors import GateStopped
from spark_jobs.spec.tables import LAYERS, Layer


def run_layers(run: Run, layers: Sequence[Layer] = LAYERS) -> dict[str, Any]:
    """Run the layers in data order under the job's trigger. A stopped gate ends the run without an error: the gate task says it.

    Under a trigger that does not end they run together, see `jobs/stream.py`. A pipeline that is run continuously is left to that.
    """
    if not run.trigger.ends:
        from spark_jobs.jobs.stream import run_stream

        try:
            return run_stream(run, layers)
        finally:
            if run.has_session:
                run.spark.stop()
    if sentence := run_continuously(run.settings, run.pipeline):
        run.say(sentence)
        return {"layers": [], "stopped": None, "sentence": sentence}
    run.small = is_small(run.settings, run.pipeline)
    if run.settings.gates and _has_work(run, layers):
        warm_up_gates()
    done: list[Layer] = []
    stopped = None
    try:
        run_in_turn(run, layers, done)
    except GateStopped as stop:
        stopped = str(stop)
        run.say(stopped)
    finally:
        if run.has_session:
            record_cost(run, _job(layers), done, stopped=stopped is not None)
            run.spark.stop()
    return {"layers": done, "stopped": stopped}


def _job(layers: Sequence[Layer]) -> str:
    return "run_layers" if len(layers) > 1 else {"bronze": "ingest_bronze", "silver": "build_silver", "gold": "build_gold"}[layers[0]]


def run_in_turn(run: Run, layers: Sequence[Layer], done: list[Layer]) -> None:
    """One layer after the other, each under its tables' leases; `done` gets those that came through."""
    for layer in layers:
        if not has_source(run, layer):
            run.say(f"{layer}: its source {source_of(run.pipeline, layer)} has no data yet.")
            continue
        with Leases(run.settings, run.pipeline.tables(layer), run.run_id, yields=bool(run.backfill_id), say=run.say) as leases:
            start_layer(layer)(run, leases).wait()
        done.append(layer)


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
