"""A table that a query wrote batch by batch, with its source and checkpoint as Spark and Delta lay them out, made without a JVM."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from spark_jobs.io.checkpoint import Checkpoint
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId

SOURCE = TableId("bronze", "x_records")
TABLE = TableId("silver", "x_events")


class StreamedTable:
    """`batch(n)` does what a run does for one micro-batch: offsets file, commit with its transaction, commits file."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._append(SOURCE, 0)
        self.checkpoint = Checkpoint(settings, TABLE, SOURCE)
        self.generation = self.checkpoint.open()
        self.folder = Path(self.checkpoint.location)
        self.app = f"{TABLE}/{self.generation.name}/{self.generation.nonce}"
        (self.folder / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))

    def batch(self, number: int, *, committed: bool = True, finished: bool = True) -> None:
        """`committed`: the table has it; `finished`: the checkpoint says so too."""
        self._append(SOURCE, number + 1)
        self._write("offsets", number, ["v1", '{"batchWatermarkMs":0}', offset(self.source_id, number + 1, -1)])
        if committed:
            note = {"batch_id": self.checkpoint.batch_id(number)}
            self._append(TABLE, number, Transaction(self.app, number, None), {"userMetadata": json.dumps(note)})
        if finished:
            self._write("commits", number, ["v1", '{"nextBatchWatermarkMs":0}'])

    @property
    def source_id(self) -> str:
        return str(DeltaTable(self.settings.location(SOURCE)).metadata().id)

    def restore(self, version: int) -> None:
        DeltaTable(self.settings.location(TABLE)).restore(version)

    def start(self) -> None:
        """The checks that a run makes before it writes. Raises CheckpointDamaged."""
        checkpoint = Checkpoint(self.settings, TABLE, SOURCE)
        generation = checkpoint.open()
        path = self.settings.location(TABLE)
        app = f"{TABLE}/{generation.name}/{generation.nonce}"
        checkpoint.check_against(DeltaTable(path).transaction_version(app) if DeltaTable.is_deltatable(path) else None)

    def _append(self, table: TableId, number: int, transaction: Transaction | None = None, note: dict[str, str] | None = None) -> None:
        properties = CommitProperties(custom_metadata=note, app_transactions=[transaction] if transaction else None)
        write_deltalake(self.settings.location(table), pa.table({"n": [number]}), mode="append", commit_properties=properties)

    def _write(self, folder: str, number: int, lines: list[str]) -> None:
        (self.folder / folder).mkdir(exist_ok=True)
        (self.folder / folder / str(number)).write_text("\n".join(lines))


def offset(table_id: str, version: int, index: int) -> str:
    """An offset of Delta's streaming source, as version 4.4 writes it."""
    place = {"sourceVersion": 1, "reservoirId": table_id, "reservoirVersion": version, "index": index, "isStartingVersion": False}
    return json.dumps(place, separators=(",", ":"))
