"""One chunk of a backfill: claimed once, worked on under the pipeline's leases, live runs first; killed and run again, it ends the same."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

from spark_jobs.io.backfill_store import BackfillStore, chunk_lease_name
from spark_jobs.io.lease import Leases
from spark_jobs.io.priority import give_way
from spark_jobs.io.process_cost import cost_so_far, family_root
from spark_jobs.jobs.backfill_figures import figures_by_day
from spark_jobs.jobs.backfill_load import load_files
from spark_jobs.jobs.build_gold import recompute
from spark_jobs.jobs.replay import replay_files
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.jobs.run_cost import Worked, record_cost
from spark_jobs.jobs.run_layers import warm_up_gates
from spark_jobs.jobs.turns import Consumed, Turns
from spark_jobs.spec.backfill import OPEN
from spark_jobs.spec.errors import GateStopped
from spark_jobs.spec.tables import LAYERS

Row = dict[str, Any]


def work_chunk(run: Run, backfill_id: str, number: int) -> Row:
    """Claim the chunk, do it, and say what came of it; a chunk that is done or cancelled is left alone.

    Raises UnknownName, LeaseHeld when another process is at work on it, GateStopped, TurnNeverCame.
    """
    store = BackfillStore(run.settings, run.clock)
    backfill, chunk = store.get(backfill_id), store.chunk(backfill_id, number)
    owner = f"backfill {backfill_id} chunk {number} ({run.run_id})"
    with Leases(run.settings, [chunk_lease_name(backfill_id, number)], owner, say=run.say):
        claimed = _move(store, chunk, "claimed", claimed_by=owner, run_id=run.run_id)
        if claimed is None:
            state = store.chunk(backfill_id, number)["state"]
            if backfill["state"] == "running":  # killed between its last chunk's end and its own
                store.close_if_finished(backfill_id)
            return {"state": state, "sentence": f"Chunk {number} of {backfill_id} is {state}; there is nothing to do."}
        run.backfill_id = backfill_id
        run.small = chunk["bytes"] <= run.settings.small_mb * 1_000_000
        if backfill["state"] == "planned":
            _begin(run, store, backfill)
        turns = Turns(run)
        try:
            did = _do(run, turns, backfill, chunk, lambda: _move(store, chunk, "admitted"))
        except GateStopped as stopped:
            _move(store, chunk, "stopped")
            _record(run, backfill, chunk, turns, ())
            raise GateStopped(f"{stopped} Chunk {number} of {backfill_id} waits for the decision; then run it again.") from None
        except BaseException:
            _record(run, backfill, chunk, turns, ())
            raise
        cost = cost_so_far()
        _record(run, backfill, chunk, turns, LAYERS)
        _move(store, chunk, "done", wall_s=round(cost.wall_s - turns.waited_s, 2), cpu_s=round(cost.cpu_s, 2))
        store.close_if_finished(backfill_id)
    return {"state": "done", **did, "sentence": f"Chunk {number} of {backfill_id} is done: {did['sentence']}"}


def _do(run: Run, turns: Turns, backfill: Row, chunk: Row, admitted: Callable[[], Any]) -> Row:
    """The chunk's work, after all that is live; returns what came of it with its sentence."""
    content, plan = json.loads(chunk["content"]), json.loads(backfill["plan"])
    mark = f"{backfill['backfill_id']}-{chunk['chunk']:04d}"
    if backfill["what"] == "load":
        return load_files(run, turns, plan, chunk, admitted)
    if run.settings.gates:
        warm_up_gates()
    turns.catch_up()
    if backfill["what"] == "recompute":
        days = [date.fromisoformat(day) for day in content["dates"]]

        def make_again() -> None:
            with Leases(run.settings, run.pipeline.gold_tables, run.run_id, yields=True) as leases:
                recompute(run, leases, days, mark=mark)

        turns.take(make_again)
        return {"days": len(days), "sentence": f"all windows of {len(days)} days were computed again."}

    def read_again() -> Any:
        with Leases(run.settings, [run.pipeline.silver_table], run.run_id, yields=True) as leases:
            return replay_files(run, leases, content["file_ids"], mark)

    replayed = turns.take(read_again)
    turns.work_until(Consumed(run, None))
    return {"replayed": vars(replayed), "sentence": f"{chunk['files']:,} files through today's parser: {replayed.sentence()}."}


def _begin(run: Run, store: BackfillStore, backfill: Row) -> None:
    """The first claim of all: what each day holds before anything is changed is kept with the plan."""
    details = json.loads(backfill["plan"])
    details["before"] = figures_by_day(run, [date.fromisoformat(day["date"]) for day in details["days"]])
    store.note(backfill["backfill_id"], "running", plan=json.dumps(details))


def _move(store: BackfillStore, chunk: Row, state: str, **changes: Any) -> Row | None:
    """The chunk in its new state; None when it is done or cancelled by now."""

    def choose(row: Row) -> Row | None:
        return {"state": state, **changes} if row["chunk"] == chunk["chunk"] and row["state"] in OPEN else None

    return next(iter(store.move(chunk["backfill_id"], choose)), None)


def _record(run: Run, backfill: Row, chunk: Row, turns: Turns, layers: Sequence[str]) -> None:
    if run.has_session:
        what = backfill["what"]
        worked = None if what == "load" else Worked(chunk["files"], chunk["bytes"], 0)
        record_cost(run, f"backfill_{what}", layers, stopped=not layers, waited_s=turns.waited_s, worked=worked)


def _work(run: Run, options: argparse.Namespace) -> Row:
    """Do one chunk of a backfill."""
    run.settings = run.settings.model_copy(update={"trigger": "once"})  # however the live job is triggered
    give_way(family_root())
    try:
        did = work_chunk(run, options.backfill, options.chunk)
    finally:
        if run.has_session:
            run.spark.stop()
    run.say(did["sentence"])
    return did


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backfill", required=True, help="the id that the plan gave")
    parser.add_argument("--chunk", type=int, required=True, help="the number of the chunk, from 0")


if __name__ == "__main__":
    leave(run_job("backfill_chunk", _work, _add_options))
