"""The base of our expectations: counts come with every evaluation, a sample only when the result format is COMPLETE."""

from __future__ import annotations

from typing import Any, ClassVar

from expectations.custom import metrics as _metrics  # noqa: F401  # importing it registers the metrics with Great Expectations
from expectations.gx import BatchExpectation, MetricConfiguration, get_metric_kwargs


class AuditExpectation(BatchExpectation):
    """A batch expectation over our metrics. Its result has element_count, unexpected_count and observed_value (a short text)."""

    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)
    sample_metric: ClassVar[str] = ""
    exact_metric: ClassVar[str] = ""  # asked for with the sample, where the cheap metric can only prove success

    def get_validation_dependencies(self, execution_engine: Any = None, runtime_configuration: Any = None) -> Any:
        """The metrics of this expectation, with its sample when the result format is COMPLETE."""
        needed = super().get_validation_dependencies(execution_engine, runtime_configuration)
        if needed.result_format["result_format"] == "COMPLETE":
            for name in filter(None, (self.sample_metric, self.exact_metric)):
                kwargs = get_metric_kwargs(name, self.configuration, runtime_configuration)
                metric = MetricConfiguration(name, kwargs["metric_domain_kwargs"], kwargs["metric_value_kwargs"])
                needed.set_metric_configuration(name, metric)
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
