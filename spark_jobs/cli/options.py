"""Options that several commands share, and how they are resolved."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_jobs.spec.pipeline import Pipeline, load_pipeline, pipeline_names

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program.")]
PipelineName = Annotated[str, typer.Option("--pipeline", "-p", help="Only this pipeline.", show_default="all")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Print at most this many rows.")]
RunId = Annotated[str, typer.Option("--run-id", help="Only what this run did.", show_default="any")]


def pipelines(name: str) -> list[Pipeline]:
    """The named pipeline, or all of them when the name is empty; raises UnknownName."""
    return [load_pipeline(name)] if name else [load_pipeline(known) for known in pipeline_names()]
