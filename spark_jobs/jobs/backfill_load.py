"""Loading history: files are entered in the ledger piece by piece, each when all that is live is done; the pipeline's writer reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import pyarrow.compute as pc

from spark_jobs.io.delta_log import latest_version
from spark_jobs.io.lake import lake_table
from spark_jobs.io.landed_file import file_id
from spark_jobs.io.landing import ListedObject
from spark_jobs.io.ledger import admit
from spark_jobs.io.ledger_files import chunks, ledger_rows
from spark_jobs.jobs.backfill_contents import listed, source_folder
from spark_jobs.jobs.run import Run
from spark_jobs.jobs.run_layers import warm_up_gates
from spark_jobs.jobs.turns import Consumed, Turns
from spark_jobs.spec.backfill import BackfillRequest
from spark_jobs.spec.tables import FILE_OUTCOMES, FILES, LAYERS, Layer

# A piece is a quarter of a batch's bytes: a live run that lands behind one has bronze and silver do it first (16 MB: about 10 s on two
# cores). Gold follows after each batch's worth: its tables cost the same few seconds for one piece as for four.
PIECES_PER_BATCH = 4
RECORDS: tuple[Layer, ...] = ("bronze", "silver")
Row = dict[str, Any]


def load_files(run: Run, turns: Turns, plan: Row, chunk: Row, admitted: Callable[[], Any]) -> Row:
    """Bring the files of a chunk of the plan ([path below the root, size, version] each) through all layers; returns counts, a sentence.

    A piece is in silver before the next one is entered, so that what lands meanwhile waits for no more than that; gold takes several
    pieces at once. `admitted` is called once, when the first piece was entered.
    """
    objects, vanished, changed = _as_they_are_now(run, BackfillRequest.from_plan(plan["request"]), chunk)
    brought_by = f"backfill {run.backfill_id}"
    entered, pieces = 0, list(_pieces(run, objects))
    if run.settings.gates and objects:
        warm_up_gates()
    for number, piece in enumerate(pieces):
        turns.catch_up(RECORDS if number else LAYERS)
        entered += len(admit(run.settings, run.pipeline, piece, run.run_id, run.clock(), brought_by))
        if not number:
            admitted()
        layers = LAYERS if (number + 1) % PIECES_PER_BATCH == 0 or piece is pieces[-1] else RECORDS
        turns.work_until(Consumed(run, latest_version(run.settings, FILES), layers), layers)
    mine, others = _who_brought(run, objects, brought_by)
    outcomes = _outcomes(run, mine, datetime.fromisoformat(plan["planned_at"]))
    counts = {
        "files": len(mine), "entered": entered, "ok": outcomes["ok"], "failed": outcomes["failed"], "records": outcomes["records"],
        "overlap": len(others), "vanished": vanished, "changed": changed,
    }  # fmt: skip
    return {**counts, "sentence": _sentence(counts)}


def _as_they_are_now(run: Run, request: BackfillRequest, chunk: Row) -> tuple[list[ListedObject], int, int]:
    """The planned files that are still there, as listed now; how many are gone, and how many are not what they were."""
    planned = {name: (size, version) for name, size, version in json.loads(chunk["content"])["files"]}
    days = request.of(first=chunk["first_date"], last=chunk["last_date"])
    present = {one.below_root: one for one in listed(source_folder(run.settings, request), days) if one.below_root in planned}
    objects = [present[name] for name in planned if name in present]
    changed = sum((one.size, one.version) != planned[one.below_root] for one in objects)
    return objects, len(planned) - len(present), changed


def _pieces(run: Run, objects: Sequence[ListedObject]) -> Iterator[list[ListedObject]]:
    rows = ({"size": one.size, "state": "listed", "object": one} for one in objects)
    for piece in chunks(rows, run.settings.batch_files, run.settings.batch_mb * 1_000_000 // PIECES_PER_BATCH):
        yield [row["object"] for row in piece]  # type: ignore[misc]  # put in above


def _who_brought(run: Run, objects: Sequence[ListedObject], brought_by: str) -> tuple[set[str], set[str]]:
    """The ids of the logs that this backfill entered, and of those that another one or a live run did."""
    ids = {file_id(one.path, one.size, one.version) for one in objects}
    columns = ["file_id", "admitted", "state", "attempt"]
    rows = ledger_rows(lake_table(run.settings, FILES), {one.prefix_date for one in objects}, columns).to_pylist()
    logs = [row for row in rows if row["file_id"] in ids and row["state"] == "listed" and row["attempt"] == 1]
    mine = {row["file_id"] for row in logs if row["admitted"] == brought_by}
    return mine, {row["file_id"] for row in logs} - mine


def _outcomes(run: Run, ids: set[str], since: datetime) -> dict[str, int]:
    wanted = (pc.field("pipeline") == run.pipeline.name) & (pc.field("read_at") >= since)  # older data files are not opened
    rows = run.ops.read(FILE_OUTCOMES, ["file_id", "outcome", "records", "attempt"], wanted).to_pylist()
    latest = {row["file_id"]: row for row in sorted(rows, key=lambda row: row["attempt"]) if row["file_id"] in ids}
    ok = [row for row in latest.values() if row["outcome"] == "ok"]
    return {"ok": len(ok), "failed": len(latest) - len(ok), "records": sum(row["records"] or 0 for row in ok)}


def _sentence(counts: Row) -> str:
    parts = [f"{counts['files']:,} files, {counts['records']:,} records"]
    if counts["failed"]:
        parts.append(f"{counts['failed']:,} could not be read (`assay files --state failed`)")
    if counts["overlap"]:
        parts.append(f"{counts['overlap']:,} were entered by others before")
    if counts["vanished"]:
        parts.append(f"{counts['vanished']:,} have vanished since the plan")
    if counts["changed"]:
        parts.append(f"{counts['changed']:,} have changed since the plan and were taken as they are now")
    return "; ".join(parts) + "."
