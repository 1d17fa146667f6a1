"""From Great Expectations' results to ours: which check, how it went, what was seen, and a few masked values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from expectations.suite import Suite, looked_at
from spark_jobs.spec.gates import CheckResult

_POSITION = "position"  # key in an expectation's meta
_SAMPLES = 5
_LONGEST = 80  # characters of one masked sample


def placed(expectations: Iterable[Any]) -> list[Any]:
    """The expectations, each with its place in the suite noted in its meta, since results come back in any order."""
    return [e.copy(update={"meta": {**(e.meta or {}), _POSITION: place}}) for place, e in enumerate(expectations)]


def place(of: Any) -> int:
    """The place of an expectation, or of a result, in its suite."""
    meta = of.expectation_config.meta if hasattr(of, "expectation_config") else of.meta
    return int(meta[_POSITION])


def check_results(suite: Suite, results: Iterable[Any]) -> tuple[CheckResult, ...]:
    """One CheckResult per Great Expectations result, in the order of the suite. A result that belongs to no expectation is dropped."""
    by_place = {place(result): result for result in results}
    return tuple(_check(expectation, by_place[at]) for at, expectation in enumerate(suite.expectations) if at in by_place)


def mask(text: str) -> str:
    """A value that can be recognised but not read: longer than 6 characters, only the first and last two are kept."""
    if len(text) <= 6:
        return text
    return f"{text[:2]}{'*' * min(len(text) - 4, _LONGEST - 4)}{text[-2:]}"


def _check(expectation: Any, result: Any) -> CheckResult:
    found = result.result or {}
    elements, unexpected = int(found.get("element_count") or 0), int(found.get("unexpected_count") or 0)
    exception = _exception(result.exception_info)
    return CheckResult(
        expectation=expectation.expectation_type,
        column=", ".join(looked_at(expectation)),
        severity=expectation.severity.value,
        success=bool(result.success) and not exception,
        sentence=expectation.description or expectation.expectation_type,
        observed=str(found.get("observed_value", f"{unexpected} of {elements} values do not")),
        element_count=elements,
        unexpected_count=unexpected,
        sample=() if result.success else _sample(found.get("partial_unexpected_list") or []),
        exception=exception,
    )


def _sample(values: list[Any]) -> tuple[str, ...]:
    """Each value, or row of values, as one masked text."""
    rows = [value if isinstance(value, (list, tuple)) else [value] for value in values[:_SAMPLES]]
    return tuple(" | ".join("null" if part is None else mask(str(part)) for part in row)[:_LONGEST] for row in rows)


def _exception(info: Any) -> str:
    """The first line of an exception, "" when there was none. Great Expectations has one form for a check and one per metric."""
    if not info:
        return ""
    forms = [info] if "raised_exception" in info else list(info.values())
    messages = [form["exception_message"] for form in forms if form.get("raised_exception")]
    return next(iter(str(messages[0]).strip().splitlines()), "unknown")[:300] if messages else ""
