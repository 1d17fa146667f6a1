"""The books of the last days, read once and then only what is new: a driver looks every minute, and each batch is a file of its own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.io.ops import Ops
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import BOOKS

COLUMNS = [
    "table", "layer", "batch_id", "run_id", "written", "quarantined", "held", "is_balanced", "equation", "source_version",
    "target_version", "epoch", "finished_at",
]  # fmt: skip
READ_WHOLE_AFTER = timedelta(hours=1)  # what was written again with an old time (nobody does, but a person might) is seen within the hour
OVERLAP = timedelta(minutes=5)  # two writers' clocks, and commits that take a while


@dataclass(frozen=True, slots=True)
class _Kept:
    read_whole_at: datetime
    read_at: datetime
    rows: pa.Table


_kept: dict[tuple[str, str], _Kept] = {}


def recent_books(settings: Settings, pipeline: Pipeline, now: datetime, length: timedelta) -> pa.Table:
    """The pipeline's rows of `_ops.books` of the last `length`, in COLUMNS; of a batch that was booked again the newest rows."""
    key, since = (settings.lake_root, pipeline.name), now - length
    kept = _kept.get(key)
    ops, mine = Ops(settings), {"pipeline": pipeline.name}
    if kept is None or not kept.read_whole_at <= kept.read_at <= now or now - kept.read_whole_at > READ_WHOLE_AFTER:
        rows = ops.read(BOOKS, COLUMNS, equal=mine, since={"finished_at": since})
        _kept[key] = _Kept(now, now, rows)
        return rows
    new = ops.read(BOOKS, COLUMNS, equal=mine, since={"finished_at": kept.read_at - OVERLAP})
    old = kept.rows.filter(pc.invert(pc.is_in(_names(kept.rows), value_set=_names(new))))
    rows = pa.concat_tables([old, new]).filter(pc.field("finished_at") >= since)
    _kept[key] = _Kept(kept.read_whole_at, now, rows)
    return rows


def _names(rows: pa.Table) -> pa.Array:
    return pc.binary_join_element_wise(rows["table"], rows["batch_id"], " ").combine_chunks()
