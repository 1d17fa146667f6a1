"""A stricter suite for a table, as a person might declare one: so that each policy of each layer is reached by real rows."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from spark_jobs.spec.gates import GatePolicy, Outcome
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.tables import Layer


def demand(patch: pytest.MonkeyPatch, layer: Layer, condition: str, columns: list[str], subject: str = "") -> None:
    """Add one expectation of severity info to a layer's suite (of one of its tables): every row satisfies the condition."""
    from expectations.custom.rows import ExpectRowsToSatisfy
    from expectations.gx import INFO

    module = importlib.import_module(f"expectations.cloudtrail.{layer}")
    declared = module.suite

    def stricter(name: str, facts: Mapping[str, Any]) -> Any:
        suite = declared(name, facts)
        if subject and name != subject:
            return suite
        more = ExpectRowsToSatisfy(columns=columns, condition=condition, severity=INFO, description=f"the demand: {condition}")
        return replace(suite, expectations=(*suite.expectations, more))

    patch.setattr(module, "suite", stricter)


def with_policy(pipeline: Pipeline, layer: Layer, info: Outcome) -> Pipeline:
    """The pipeline with another consequence for expectations of severity info in one layer."""
    return replace(pipeline, policies={**pipeline.policies, layer: GatePolicy(info=info)})
