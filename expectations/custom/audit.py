"""The base of our expectations: counts come with every evaluation, a sample only when the result format is COMPLETE."""

from __future__ import annotations

from typing import Any, ClassVar

from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.registry import get_metric_kwargs
from great_expectations.validator.metric_configuration import MetricConfiguration

from expectations.custom import metrics as _metrics  # noqa: F401  # importing it registers the metrics with Great Expectations


class AuditExpectation(BatchExpectation):
    """A batch expectation over our metrics. Its result has element_count, unexpected_count and observed_value (a short text)."""

    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)
    sample_metric: ClassVar[str] = ""

    def get_validation_dependencies(self, execution_engine: Any = None, runtime_configuration: Any = None) -> Any:
        """The metrics of this expectation, with its sample when it is asked for."""
        needed = super().get_validation_dependencies(execution_engine, runtime_configuration)
        if self.sample_metric and needed.result_format["result_format"] == "COMPLETE":
            kwargs = get_metric_kwargs(self.sample_metric, self.configuration, runtime_configuration)
            domain, value = kwargs["metric_domain_kwargs"], kwargs["metric_value_kwargs"]
            needed.set_metric_configuration(self.sample_metric, MetricConfiguration(self.sample_metric, domain, value))
        return needed

    def found(self, metrics: dict[str, Any], *, unexpected: int, observed: str) -> dict[str, Any]:
        """The result in Great Expectations' form. Nothing unexpected is success."""
        result = {
            "element_count": metrics["table.row_count"],
            "unexpected_count": unexpected,
            "observed_value": observed,
            "partial_unexpected_list": metrics.get(self.sample_metric) or [],
        }
        return {"success": unexpected == 0, "result": result}
