"""Making a generation of a checkpoint that begins at a position: the files that Spark would have left there, had it come that far."""

from __future__ import annotations

import json
import uuid
from datetime import datetime

from spark_jobs.io.checkpoint import Checkpoint
from spark_jobs.io.generation import BASE, GENERATION_FILE, Generation
from spark_jobs.io.lake import lake_table, storage
from spark_jobs.io.taken import Begin
from spark_jobs.spec.settings import Settings

_COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'


def make_generation(
    settings: Settings, old: Checkpoint, begin: Begin, *, name: str, follows: str, voids: list[str], begun: str, at: datetime
) -> Generation:
    """Write generation `name` beside the older ones, which stay as they are. From then on it is the checkpoint.

    `begun`: the offsets file of a batch that is to be made again in the same bounds, empty for none. It appears as a whole or not at all.
    """
    source = lake_table(settings, old.source)
    source_id = "" if source is None else str(source.metadata().id)
    made = Generation(
        name, str(old.table), str(old.source), source_id, uuid.uuid4().hex[:12], at.isoformat(timespec="seconds"),
        is_positioned=True, follows=follows, taken_until=begin.taken_until, voids=voids,
    )  # fmt: skip
    fs, folder = storage(settings.checkpoint(old.table))
    making = f"{folder}/making-{name}"
    if fs.exists(making):  # of one that was killed
        fs.rm(making, recursive=True)
    files = {
        GENERATION_FILE: made.text(),
        "metadata": json.dumps({"id": str(uuid.uuid4())}).encode(),
    }
    for number in range(BASE + 1):
        files[f"offsets/{number}"] = offsets_file(source_id, begin, at).encode()
        files[f"commits/{number}"] = _COMMIT.encode()
    if begun:
        files[f"offsets/{BASE + 1}"] = begun.encode()
    for path, content in files.items():
        fs.makedirs(f"{making}/{path}".rsplit("/", 1)[0], exist_ok=True)
        fs.pipe_file(f"{making}/{path}", content)
    fs.mv(making, f"{folder}/{name}", recursive=True)
    return made


def offsets_file(source_id: str, begin: Begin, at: datetime) -> str:
    """An offsets file of one Delta source, as Spark 4.1 and Delta 4.4 write it. It fixes no engine setting: today's hold."""
    batch = {"batchWatermarkMs": 0, "batchTimestampMs": int(at.timestamp() * 1000), "conf": {}}
    place = {
        "sourceVersion": 1, "reservoirId": source_id, "reservoirVersion": begin.position.version, "index": begin.position.index,
        "isStartingVersion": begin.is_snapshot,
    }  # fmt: skip
    return "\n".join(["v1", *(json.dumps(line, separators=(",", ":")) for line in (batch, place))])
