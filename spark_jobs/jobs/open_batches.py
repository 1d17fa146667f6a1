"""Batches that were open when a new checkpoint was made: a person may have been asked about them, or have answered, under the old name."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import pyarrow.compute as pc

from spark_jobs.jobs.run import Run
from spark_jobs.spec.tables import DECISIONS, VERDICTS, TableId

SUPERSEDED = "superseded"


def open_batches(run: Run, tables: Sequence[TableId]) -> set[str]:
    """The batch ids about which a person is asked, or has decided and nobody has carried it out yet."""
    from spark_jobs.report.batches import waiting_batches
    from spark_jobs.report.views import LakeViews

    rows = waiting_batches(LakeViews(run.settings), pipeline=run.pipeline.name)
    return {row["batch_id"] for row in rows if row["table"] in map(str, tables)}


def hand_over_decisions(run: Run, tables: Sequence[TableId], successors: Mapping[str, str]) -> list[str]:
    """Close what is open under the old names; a decision about a batch that is made again in the same bounds goes over to its new name.

    `successors`: for each old batch id the new one, empty when its records come in batches of other bounds. Calling it again changes
    nothing. Returns what a person should know.
    """
    if not successors:
        return []
    names = pc.field("table").isin(list(map(str, tables))) & pc.field("batch_id").isin(list(successors))
    decided = run.ops.read(DECISIONS, filter=names).to_pylist()
    judged = run.ops.read(VERDICTS, ["table", "batch_id", "outcome"], names & pc.field("outcome").isin(["stop", "hold"])).to_pylist()
    closed = {(row["table"], row["batch_id"]) for row in decided if row["decision"] == SUPERSEDED}
    said = []
    for table, batch_id in sorted({(row["table"], row["batch_id"]) for row in [*decided, *judged]} - closed):
        successor = successors[batch_id]
        rows = [_row(run, table, batch_id, SUPERSEDED, "assay doctor", f"made again as {successor or 'other batches'}")]
        mine = [row for row in decided if (row["table"], row["batch_id"]) == (table, batch_id)]
        for row in mine if successor else ():
            rows.append(_row(run, table, successor, row["decision"], row["who"], f"{row['note'] or ''} (about {batch_id})".strip()))
        run.ops.append(DECISIONS, rows)
        if mine and successor:
            said.append(f"The decision about {table} {batch_id} ({mine[0]['decision']}) goes over to {successor}, the same batch.")
        elif mine:
            said.append(
                f"{table} {batch_id} is read again in other bounds and judged anew: the decision about it ({mine[0]['decision']}) ends."
            )
    return said


def _row(run: Run, table: str, batch_id: str, decision: str, who: str, note: str) -> dict[str, object]:
    return {
        "decision_id": uuid.uuid4().hex, "pipeline": run.pipeline.name, "table": table, "batch_id": batch_id, "decision": decision,
        "who": who, "note": note, "decided_at": run.clock(),
    }  # fmt: skip
