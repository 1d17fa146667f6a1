"""One row of `_ops.runs` for each job process that did work: what it took, and what it read. Predictions of backfills rest on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from spark_jobs.io.process_cost import cost_so_far
from spark_jobs.jobs.run import Run
from spark_jobs.spec.tables import BOOKS, FILE_OUTCOMES, RUNS


@dataclass(frozen=True, slots=True)
class Worked:
    """What a job worked on, where that is not what bronze read."""

    files: int
    bytes: int
    records: int


def record_cost(
    run: Run, job: str, layers: Sequence[str], *, stopped: bool = False, waited_s: float = 0.0, worked: Worked | None = None
) -> None:
    """Write the row. A run never fails for it: that its cost is unknown is said, and nothing else.

    `layers`: those that came through. A run that found nothing to do leaves no row; one that a gate stopped did work. `waited_s`: for
    other writers, which is no cost.
    """
    try:
        cost = cost_so_far()
        own = {"pipeline": run.pipeline.name, "run_id": run.run_id}
        columns = ["layer", "read", "finished_at"]
        books = run.ops.read(BOOKS, columns, pc.field("finished_at") >= cost.started_at, equal=own).to_pylist()
        outcomes = run.ops.read(FILE_OUTCOMES, ["bytes"], pc.field("read_at") >= cost.started_at, equal=own)
        if not (books or outcomes.num_rows or stopped or worked):
            return
        read = {layer: sum(row["read"] or 0 for row in books if row["layer"] == layer) for layer in ("bronze", "silver")}
        did = worked or Worked(outcomes.num_rows, pc.sum(outcomes["bytes"]).as_py() or 0, read["bronze"] or read["silver"])
        run.ops.append(
            RUNS,
            [
                {
                    "pipeline": run.pipeline.name, "run_id": run.run_id, "job": job, "layers": ",".join(layers), "files": did.files,
                    "bytes": did.bytes, "records": did.records, "wall_s": round(cost.wall_s - waited_s, 2),
                    "cpu_s": round(cost.cpu_s, 2), "is_small": run.small, "backfill_id": run.backfill_id,
                    "started_at": cost.started_at, "finished_at": run.clock(),
                }
            ],
        )  # fmt: skip
    except Exception as fault:  # whatever it is, what the run published stands
        run.say(f"What this run cost was not recorded: {type(fault).__name__}: {(str(fault).splitlines() or [''])[0]}")
