"""The continuous driver: bronze, silver and gold in one process that lives a bounded time and hands over at a batch boundary.

It looks at the landing folder at the pipeline's trigger; each layer takes what the one before it has written within a second or two. It
holds the pipeline's relay from its first table to its last, so that there is one such driver at a time: the next one starts its JVM,
waits for the relay, and goes on from the checkpoints.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spark_jobs.io.lease import Leases
from spark_jobs.io.lease_holder import CONTINUOUS
from spark_jobs.io.relay import driver_of, end_request, successors
from spark_jobs.jobs.alert_look import AlertLook
from spark_jobs.jobs.crash_loop import refuse_crash_loop
from spark_jobs.jobs.ending import Ended, Ending
from spark_jobs.jobs.landing_look import LandingLook
from spark_jobs.jobs.query_events import record_event
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.jobs.run_cost import record_cost
from spark_jobs.jobs.run_layers import warm_up_gates
from spark_jobs.jobs.streamed_layer import StreamedLayer, layer_run
from spark_jobs.spec.errors import LeaseLost
from spark_jobs.spec.tables import LAYERS, Layer

POLL = "every 1 second"  # how soon a layer sees what the one before it has written: 3 ms of CPU each, measured
LOOK_EVERY_S = 1.0
RELAY_S = 60.0  # a driver that a successor waits for ends this much before its time: a lifetime and a relay rarely meet to the second


def run_stream(run: Run, layers: Sequence[Layer] = LAYERS, lifetime_s: float | None = None) -> dict[str, Any]:
    """Run the layers until the lifetime is over, a signal comes, or somebody asks. Each reason ends it at a batch boundary.

    Raises LeaseLost when another writer has taken over, CrashLoop, and whatever ended a layer. Returns `layers` that ran, `ended` (why),
    `stopped` (the sentence of a gate that stopped a layer), `pace` (per query: batches, their seconds, those of the gates), `sentence`.
    """
    if run.trigger.ends:
        run = replace(run, settings=run.settings.model_copy(update={"trigger": run.pipeline.stream_trigger}))
    ending = Ending(run.settings.lifetime_min * 60 if lifetime_s is None else lifetime_s)
    ending.on_signals()
    refuse_crash_loop(run)
    if run.settings.gates:
        warm_up_gates()
    run.spark.range(1).count()  # before the wait for the relay, so that the predecessor's end and the first batch are seconds apart
    streamed: list[StreamedLayer] = []
    try:
        if set(layers) == set(LAYERS):
            _run_in_relay(run, layers, ending, streamed)
        else:
            _run_layers(run, layers, ending, streamed)
    except Ended:
        pass
    finally:
        done = [one.layer for one in streamed if one.has_run]
        record_cost(run, "continuous", done)
    stopped = " ".join(one.stopped for one in streamed if one.stopped) or None
    pace = {one.query_name: one.pace.said() for one in streamed}
    return {"layers": done, "stopped": stopped, "ended": ending.why, "pace": pace, "sentence": ending.sentence}


def _run_in_relay(run: Run, layers: Sequence[Layer], ending: Ending, streamed: list[StreamedLayer]) -> None:
    def waits(_: str) -> None:
        holder = driver_of(run.settings, run.pipeline)
        sentence = f"{run.pipeline.name} is run continuously by {holder}; this driver is ready to be the next."
        run.say(sentence)
        record_event(run, "waiting", sentence=sentence)

    def still() -> None:
        _heed_request(run, ending)
        ending.check()

    def lost(fault: LeaseLost) -> None:
        ending.ask("fault", str(fault))

    with Leases(run.settings, [run.pipeline.relay], run.run_id, lost, mode=CONTINUOUS, say=waits, still=still) as relay:
        until = ending.begin_lifetime()
        relay.say_until(until)
        record_event(run, "started", sentence=f"{run.pipeline.name} runs continuously, {run.trigger}.")
        fault: BaseException | None = None
        try:
            _run_layers(run, layers, ending, streamed, until)
            relay.check()
        except BaseException as raised:
            fault = raised
            raise
        finally:
            if fault is None and (next_ones := successors(run.settings, run.pipeline)):
                record_event(run, "handed_over", sentence=f"Handed over to {', '.join(next_ones)}: {ending.sentence}")
            record_event(run, "terminated", error=fault, sentence=ending.sentence)


def _run_layers(run: Run, layers: Sequence[Layer], ending: Ending, streamed: list[StreamedLayer], until: float = 0.0) -> None:
    until = until or ending.begin_lifetime()
    look = LandingLook(run, ending, run.trigger.interval_s or LOOK_EVERY_S)
    look.first_look()
    for layer in layers:
        one = StreamedLayer(layer_run(run, layer, trigger_of(run, layer)), layer, ending, until)
        streamed.append(one)
        one.start()
    look.start()
    AlertLook(run, ending).start()  # not waited for: a mail server may take its time
    while not ending.wait(LOOK_EVERY_S):
        _heed_request(run, ending)
        if ending.left_s <= RELAY_S and successors(run.settings, run.pipeline):
            ending.ask("handed_over", "The next driver is ready.")
    run.say(f"Ending at a batch boundary: {ending.sentence}")
    for thread in (*streamed, look):
        thread.join()
    for one in streamed:
        if one.fault is not None:
            raise one.fault


def _heed_request(run: Run, ending: Ending) -> None:
    if request := end_request(run.settings, run.pipeline, ending.began_at):
        ending.ask("asked", f"{request.who} asked for it.")


def trigger_of(run: Run, layer: Layer) -> str:
    """How often the layer's query looks at its source."""
    if run.trigger.kind == "as fast as possible":
        return str(run.trigger)
    if layer == "gold":
        return run.settings.gold_trigger or run.pipeline.gold_trigger
    return POLL


def _work(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """Bronze, silver and gold, continuously, for a bounded time."""
    try:
        return run_stream(run, lifetime_s=options.lifetime_min * 60 if options.lifetime_min is not None else None)
    finally:
        if run.has_session:
            run.spark.stop()


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lifetime-min", type=float, default=None, help="end after this many minutes (default ASSAY_LIFETIME_MIN)")


if __name__ == "__main__":
    leave(run_job("stream", _work, _add_options))
