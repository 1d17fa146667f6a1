"""Cancel a backfill: what nobody is at work on is not done any more; the chunk at work ends in its own time. Starts no JVM."""

from __future__ import annotations

import argparse
from typing import Any

from spark_jobs.io.backfill_store import BackfillStore
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.spec.backfill import OPEN

Row = dict[str, Any]


def cancel(run: Run, backfill_id: str, who: str) -> Row:
    """Every table stays as whole as it was: a chunk that was begun and left has its files in the ledger, and the next run reads them."""
    store = BackfillStore(run.settings, run.clock)
    store.get(backfill_id)

    def choose(row: Row) -> Row | None:
        if row["state"] not in OPEN or (row["state"] in ("claimed", "admitted") and store.worker(backfill_id, row["chunk"])):
            return None
        return {"state": "cancelled", "claimed_by": f"cancelled by {who}", "run_id": run.run_id}

    cancelled = store.move(backfill_id, choose)
    chunks = store.chunks(backfill_id)
    at_work = [chunk["chunk"] for chunk in chunks if chunk["state"] in OPEN]
    done = [chunk for chunk in chunks if chunk["state"] == "done"]
    if cancelled:
        store.close_if_finished(backfill_id)
    parts = [
        f"{len(cancelled)} of {len(chunks)} chunks of {backfill_id} cancelled." if cancelled else f"{backfill_id} has nothing to cancel."
    ]
    parts.append(f"{len(done)} are done ({sum(chunk['files'] for chunk in done):,} files) and stay.")
    if at_work:
        parts.append(f"Chunk {', '.join(map(str, at_work))} is at work and ends in its own time.")
    if cancelled:
        parts.append("A new plan of the same range brings the rest.")
    return {"cancelled": len(cancelled), "done": len(done), "at_work": at_work, "sentence": " ".join(parts)}


def _work(run: Run, options: argparse.Namespace) -> Row:
    """Cancel what is left of a backfill."""
    did = cancel(run, options.backfill, options.who or run.run_id)
    run.say(did["sentence"])
    return did


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backfill", required=True, help="the id that the plan gave")
    parser.add_argument("--who", default="", help="who cancels it")


if __name__ == "__main__":
    leave(run_job("backfill_cancel", _work, _add_options))
