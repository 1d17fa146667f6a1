"""Table names. Location, checkpoint and side tables are derived from the name, never typed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from spark_jobs.spec.errors import ConfigurationFault, UnknownName

Layer = Literal["bronze", "silver", "gold", "_ops"]
LAYERS: tuple[Layer, ...] = ("bronze", "silver", "gold")  # in data order
Side = Literal["quarantine", "duplicates", "held"]
SIDES: tuple[Side, ...] = ("quarantine", "duplicates", "held")  # of a bronze or silver table
_NAME = re.compile(r"[a-z][a-z0-9_]{0,127}")


@dataclass(frozen=True, slots=True)
class TableId:
    """A table as `<layer>.<name>`, for example `silver.cloudtrail_events`.

    Raises ConfigurationFault when either part is not a plain snake_case word, so that no name can leave the lake folder.
    """

    layer: Layer
    name: str

    def __post_init__(self) -> None:
        if self.layer not in get_args(Layer) or not _NAME.fullmatch(self.name):
            raise ConfigurationFault(f"'{self.layer}.{self.name}' is not a table name; write <bronze|silver|gold>.<snake_case>.")

    @classmethod
    def parse(cls, text: str) -> TableId:
        """`silver.cloudtrail_events` to TableId; raises UnknownName when the text has no layer."""
        layer, _, name = text.partition(".")
        if not name:
            raise UnknownName(f"'{text}' is not a table name; write it with its layer, as in silver.cloudtrail_events.")
        return cls(layer, name)  # type: ignore[arg-type]  # checked in __post_init__

    def __str__(self) -> str:
        return f"{self.layer}.{self.name}"

    @property
    def folder(self) -> str:
        """Path below the lake root: `silver/cloudtrail_events`."""
        return f"{self.layer}/{self.name}"

    def side(self, suffix: Side) -> TableId:
        """A side table of this one: `silver.cloudtrail_events_quarantine`."""
        return TableId(self.layer, f"{self.name}_{suffix}")


FILES = TableId("_ops", "files")
FILE_OUTCOMES = TableId("_ops", "file_outcomes")
BOOKS = TableId("_ops", "books")
VERDICTS = TableId("_ops", "verdicts")
DECISIONS = TableId("_ops", "decisions")
SWEEPS = TableId("_ops", "sweeps")
RUNS = TableId("_ops", "runs")
AMENDMENTS = TableId("_ops", "amendments")
AUDITS = TableId("_ops", "audits")
DISMISSALS = TableId("_ops", "dismissals")
BACKFILLS = TableId("_ops", "backfills")
BACKFILL_CHUNKS = TableId("_ops", "backfill_chunks")
CONSUMERS = TableId("_ops", "consumers")
MAINTENANCE = TableId("_ops", "maintenance")
PROGRESS = TableId("_ops", "progress")
QUERY_EVENTS = TableId("_ops", "query_events")
INCIDENTS = TableId("_ops", "incidents")
OPS_TABLES = (
    FILES, FILE_OUTCOMES, BOOKS, VERDICTS, DECISIONS, SWEEPS, RUNS, AMENDMENTS, AUDITS, DISMISSALS, BACKFILLS, BACKFILL_CHUNKS,
    CONSUMERS, MAINTENANCE, PROGRESS, QUERY_EVENTS, INCIDENTS,
)  # fmt: skip
