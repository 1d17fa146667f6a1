"""What a pipeline declares about itself. Everything else is derived, so adding a pipeline edits no engine file."""

from __future__ import annotations

import importlib
import pkgutil
import re
from dataclasses import dataclass, field
from datetime import timedelta

from spark_jobs.spec.errors import ConfigurationFault, UnknownName
from spark_jobs.spec.gates import GatePolicy
from spark_jobs.spec.tables import Layer, TableId
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


@dataclass(frozen=True, slots=True)
class GoldSpec:
    """One windowed aggregate of silver.

    `counts` is the column whose sum must equal the number of silver rows for which the SQL predicate `of` holds, once for each
    window they are in: the gold equation.
    """

    subject: str  # name without the pipeline, e.g. activity_1h
    window: WindowSpec
    grain: tuple[str, ...]  # key columns besides window_start
    counts: str = "event_count"
    of: str = "true"


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
    freshness: timedelta = timedelta(hours=2)
    daily_cron: str = "30 1 * * *"  # after midnight UTC, once the day's last files have landed
    lateness: timedelta = timedelta(hours=1)  # a window settles this long after its end
    clock_ahead: timedelta = timedelta(days=1)  # an event further ahead of its arrival is parked until its time has come

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise ConfigurationFault(f"'{self.name}' is not a pipeline name; use a snake_case noun.")

    @property
    def bronze_table(self) -> TableId:
        return TableId("bronze", f"{self.name}_{self.bronze_entity}")

    @property
    def silver_table(self) -> TableId:
        return TableId("silver", f"{self.name}_{self.silver.entity}")

    def gold_table(self, spec: GoldSpec) -> TableId:
        return TableId("gold", f"{self.name}_{spec.subject}")

    @property
    def gold_tables(self) -> tuple[TableId, ...]:
        return tuple(self.gold_table(spec) for spec in self.gold)

    @property
    def gold_stream(self) -> TableId:
        """The name of the one query on silver that is the clock of all gold tables."""
        return TableId("gold", self.name)

    def tables(self, layer: Layer) -> tuple[TableId, ...]:
        return {"bronze": (self.bronze_table,), "silver": (self.silver_table,), "gold": self.gold_tables, "_ops": ()}[layer]

    @property
    def all_tables(self) -> tuple[TableId, ...]:
        return (self.bronze_table, self.silver_table, *self.gold_tables)

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
