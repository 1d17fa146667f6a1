"""The three layers by name: what each reads, whether that is there yet, and how its query is started."""

from __future__ import annotations

from collections.abc import Callable

from spark_jobs.io.lake import lake_table
from spark_jobs.io.lease import Leases
from spark_jobs.jobs.query import LayerQuery
from spark_jobs.jobs.run import Run
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.tables import FILES, Layer, TableId


def start_layer(layer: Layer) -> Callable[[Run, Leases], LayerQuery]:
    """What starts the layer's query; the holder of the leases calls it."""
    from spark_jobs.jobs.build_gold import start_gold
    from spark_jobs.jobs.build_silver import start_silver
    from spark_jobs.jobs.ingest_bronze import start_bronze

    return {"bronze": start_bronze, "silver": start_silver, "gold": start_gold}[layer]


def source_of(pipeline: Pipeline, layer: Layer) -> TableId:
    return {"bronze": FILES, "silver": pipeline.bronze_table, "gold": pipeline.silver_table}[layer]


def has_source(run: Run, layer: Layer) -> bool:
    """True once the table that the layer reads exists."""
    return lake_table(run.settings, source_of(run.pipeline, layer)) is not None
