"""What a pipeline declares about itself. Everything else is derived, so adding a pipeline edits no engine file."""

from __future__ import annotations

import importlib
import pkgutil
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from spark_jobs.spec.alerts import DEFAULT_ALERTS, AlertRule
from spark_jobs.spec.errors import ConfigurationFault, UnknownName
from spark_jobs.spec.gates import GatePolicy
from spark_jobs.spec.tables import Layer, TableId
from spark_jobs.spec.triggers import Trigger
from spark_jobs.spec.windows import WindowSpec


@dataclass(frozen=True, slots=True)
class Landing:
    """Which objects of a landing folder are logs, and how a log file is laid out.

    `log_name` must match an object's whole name; what does not match is entered in the ledger with the reason it is not read.
    `ignored` maps a pattern (searched in the path below the landing root) to that reason; it is tried first.
    """

    log_name: str
    records_key: str
    ignored: tuple[tuple[str, str], ...] = ()

    def reason_not_read(self, path_below_root: str) -> str | None:
        """None when the object is a log, else the reason why it is not read."""
        for pattern, reason in self.ignored:
            if re.search(pattern, path_below_root):
                return reason
        name = path_below_root.rsplit("/", 1)[-1]
        return None if re.fullmatch(self.log_name, name) else f"its name is not a log's ({self.log_name})"


@dataclass(frozen=True, slots=True)
class SilverSpec:
    """The typed table: one row per event key, forever."""

    entity: str
    key: str  # the event key column
    date: str  # the partition column, a date
    time: str  # the event time column, a UTC timestamp


Cadence = Literal["hourly", "daily"]


@dataclass(frozen=True, slots=True)
class GoldSpec:
    """One windowed aggregate of silver.

    `counts` is the column whose sum must equal the number of silver rows for which the SQL predicate `of` holds, once for each
    window they are in: the gold equation. `cadence` says which run brings the table up to silver.
    """

    subject: str  # name without the pipeline, e.g. activity_1h
    window: WindowSpec
    grain: tuple[str, ...]  # key columns besides window_start
    counts: str = "event_count"
    of: str = "true"
    cadence: Cadence = "hourly"
    freshness: timedelta | None = None  # its own target; else that of its cadence


@dataclass(frozen=True, slots=True)
class FirstSeenSpec:
    """For each kind and value the first event that has it, in the order of event time and event key; brought up by the daily run.

    `kinds` maps a kind's name to the silver column of its values; a null is no value. `keeps` are the silver columns of the first event
    that the table shows besides its time (`first_event_at`) and key.
    """

    subject: str
    kinds: tuple[tuple[str, str], ...]
    keeps: tuple[str, ...] = ()
    grain: tuple[str, ...] = ("kind", "value")
    cadence: Cadence = "daily"
    freshness: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A source and its tables: `bronze.<name>_<records>`, `silver.<name>_<entity>`, `gold.<name>_<subject>`."""

    name: str
    title: str
    owner: str
    landing: Landing
    silver: SilverSpec
    gold: tuple[GoldSpec, ...]
    hourly_cron: str
    tags: tuple[str, ...] = ()
    description: str = ""
    bronze_entity: str = "records"
    policies: dict[Layer, GatePolicy] = field(default_factory=dict)
    # How long what has come may wait to enter a table. Hourly: the hour until the next run, and an hour for it; daily: the same with a day
    # and four hours, in which the day's run has ended even behind a backfill.
    freshness: timedelta = timedelta(hours=2)
    daily_freshness: timedelta = timedelta(hours=28)
    daily_cron: str = "30 1 * * *"  # after midnight UTC, once the day's last files have landed
    lateness: timedelta = timedelta(hours=1)  # a window settles this long after its end
    first_seen: FirstSeenSpec | None = None
    stream_trigger: str = "every 10 seconds"  # continuous runs: how often the landing folder is looked at
    gold_trigger: str = "every 60 seconds"  # continuous runs: gold computes whole windows again, so seldom pays
    clock_ahead: timedelta = timedelta(days=1)  # an event further ahead of its arrival is parked until its time has come
    alerts: tuple[AlertRule, ...] = DEFAULT_ALERTS  # what a person is told by mail or chat; see spec/alerts.py

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise ConfigurationFault(f"'{self.name}' is not a pipeline name; use a snake_case noun.")
        for text in (self.stream_trigger, self.gold_trigger):
            if Trigger.parse(text).ends:
                raise ConfigurationFault(f"Pipeline {self.name}: '{text}' is no trigger of a continuous run; it ends by itself.")

    @property
    def bronze_table(self) -> TableId:
        return TableId("bronze", f"{self.name}_{self.bronze_entity}")

    @property
    def silver_table(self) -> TableId:
        return TableId("silver", f"{self.name}_{self.silver.entity}")

    def gold_table(self, spec: GoldSpec | FirstSeenSpec) -> TableId:
        return TableId("gold", f"{self.name}_{spec.subject}")

    def gold_of(self, cadence: Cadence) -> tuple[GoldSpec, ...]:
        """The windowed tables that runs of this cadence bring up to silver."""
        return tuple(spec for spec in self.gold if spec.cadence == cadence)

    def gold_tables_of(self, cadence: Cadence) -> tuple[TableId, ...]:
        """All gold tables of a cadence: windowed ones in their order, then first seen."""
        specs = (*self.gold_of(cadence), *((self.first_seen,) if self.first_seen and self.first_seen.cadence == cadence else ()))
        return tuple(self.gold_table(spec) for spec in specs)

    @property
    def gold_tables(self) -> tuple[TableId, ...]:
        """Every gold table, of whatever cadence."""
        return (*self.gold_tables_of("hourly"), *self.gold_tables_of("daily"))

    @property
    def gold_stream(self) -> TableId:
        """The name of the one query on silver that is the clock of all gold tables."""
        return TableId("gold", self.name)

    @property
    def relay(self) -> TableId:
        """The name of the lease that the one continuous driver of the pipeline holds, whatever tables it holds at the moment."""
        return TableId("_ops", f"{self.name}_relay")

    def tables(self, layer: Layer) -> tuple[TableId, ...]:
        """The tables that an hourly run of the layer writes."""
        hourly = self.gold_tables_of("hourly")
        return {"bronze": (self.bronze_table,), "silver": (self.silver_table,), "gold": hourly, "_ops": ()}[layer]

    @property
    def all_tables(self) -> tuple[TableId, ...]:
        """Every table of the pipeline, of whatever cadence, in data order; without side tables."""
        return (self.bronze_table, self.silver_table, *self.gold_tables)

    def freshness_of(self, table: TableId) -> timedelta:
        """How long what has come may wait to enter the table: its own target, else that of its cadence."""
        specs = {self.gold_table(spec): spec for spec in (*self.gold, *((self.first_seen,) if self.first_seen else ()))}
        spec = specs.get(table)
        if spec is None or spec.cadence == "hourly":
            return (spec.freshness if spec else None) or self.freshness
        return spec.freshness or self.daily_freshness

    def policy(self, layer: Layer) -> GatePolicy:
        """Gold has no held rows (it is recomputed), so there `hold` is `stop`, whatever was declared."""
        declared = self.policies.get(layer, GatePolicy())
        return declared.without_hold() if layer == "gold" else declared


def pipeline_names() -> list[str]:
    """The names of all pipelines that are installed, sorted."""
    import spark_jobs.pipelines as package

    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.ispkg)


def load_pipeline(name: str) -> Pipeline:
    """The declaration `PIPELINE` of `spark_jobs.pipelines.<name>.pipeline`; raises UnknownName when there is none."""
    if name not in pipeline_names():
        raise UnknownName(f"There is no pipeline '{name}'. Known: {', '.join(pipeline_names())}.")
    declared: Pipeline = importlib.import_module(f"spark_jobs.pipelines.{name}.pipeline").PIPELINE
    return declared
