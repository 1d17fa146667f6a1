"""The gate: evaluates a suite on one batch with Great Expectations, and says what follows. It never passes for want of evidence."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from expectations.results import check_results
from expectations.suite import Suite
from spark_jobs.spec.books import Books
from spark_jobs.spec.gates import OUTCOMES, CheckResult, GatePolicy, Outcome, Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DECIDE = "See `assay held show`, then `assay held release` or `assay held reject`"
_SHOWN = 3  # failed expectations named in the sentence; the verdict has them all


def evaluate(
    frame: DataFrame,
    *,
    suite: Suite,
    policy: GatePolicy,
    table: str,
    batch_id: str,
    books: Books | None,
    facts: Mapping[str, Any],
    is_published: bool = False,
) -> Verdict:
    """Validate a frame, which the caller has persisted, against its suite. `is_published`: it is a table as it stands, not a batch.

    Each failed expectation has the consequence that the policy gives its severity; the strictest one is the outcome. Whatever keeps
    an expectation from being evaluated means `stop`: an empty suite, a missing fact or column, an exception, fewer results than
    expectations, unbalanced books, or an empty frame whose batch read nothing. Raises nothing of its own.
    """
    checks: tuple[CheckResult, ...] = ()
    reasons = _refusals(frame.columns, suite, books, facts)
    if not reasons:
        try:
            from expectations.validation import validate

            checks = check_results(suite, validate(frame, suite))
        except Exception as fault:  # whatever it is, the batch was not audited
            reasons = [f"the suite could not be evaluated ({type(fault).__name__}: {_first_line(fault)})"]
        else:
            reasons = _gaps(checks, suite, books, facts)
    outcome, said = _outcome(checks, policy, reasons)
    sentence = _sentence(table, batch_id, outcome, said, checks, is_published=is_published)
    return Verdict(table, batch_id, suite.name, outcome, sentence, checks)


def warm_up() -> threading.Thread:
    """Import Great Expectations in a thread beside the start of the JVM; returns the thread. Evaluating waits for it by itself."""
    thread = threading.Thread(target=_import_validation, name="warm-up-gates", daemon=True)
    thread.start()
    return thread


def _import_validation() -> None:
    import expectations.custom.figures
    import expectations.custom.rows
    import expectations.validation  # noqa: F401  # a failure shows again, with its sentence, when a batch is evaluated


def _refusals(columns: list[str], suite: Suite, books: Books | None, facts: Mapping[str, Any]) -> list[str]:
    """Reasons why this batch cannot be audited at all."""
    reasons = []
    if missing := suite.missing_facts(facts):
        reasons.append(f"the suite was not given {', '.join(missing)}")
    elif not suite.expectations:
        reasons.append("the suite has no expectations")
    if absent := [name for name in suite.columns() if name not in columns]:
        reasons.append(f"the frame has no column {', '.join(absent)}")
    if books is not None and not books.is_balanced:
        reasons.append(f"the books do not balance ({books.equation()})")
    return reasons


def _gaps(checks: tuple[CheckResult, ...], suite: Suite, books: Books | None, facts: Mapping[str, Any]) -> list[str]:
    """Reasons why the evaluation proves nothing, or not everything."""
    reasons = []
    if len(checks) != len(suite.expectations):
        reasons.append(f"{len(checks)} of {len(suite.expectations)} expectations gave a result")
    raised = [check for check in checks if check.exception]
    if raised:
        reasons.append(f"{len(raised)} of {len(checks)} expectations could not be evaluated ({raised[0].sentence}: {raised[0].exception})")
    elif not any(check.element_count for check in checks) and not _read_something(books, facts):
        reasons.append("the frame is empty, and no books show that its batch read anything")
    return reasons


def _read_something(books: Books | None, facts: Mapping[str, Any]) -> bool:
    """An empty frame is right when its batch read something, all of which went elsewhere (duplicates, quarantine, unread files)."""
    read = 0 if books is None else books.read + books.files_read
    return books is not None and (read > 0 or (facts.get("source_rows") or 0) > 0)


def _outcome(checks: tuple[CheckResult, ...], policy: GatePolicy, reasons: list[str]) -> tuple[Outcome, list[str]]:
    """The strictest consequence, and what led to it, strictest first."""
    failed = [(policy.consequence(check.severity), check) for check in checks if not check.success and not check.exception]
    failed.sort(key=lambda pair: OUTCOMES.index(pair[0]), reverse=True)
    said = [*reasons, *[f"{check.sentence}: {check.observed}" for _, check in failed]]
    if reasons:
        return "stop", said
    return (failed[0][0] if failed else "pass"), said


def _sentence(table: str, batch_id: str, outcome: Outcome, said: list[str], checks: tuple[CheckResult, ...], *, is_published: bool) -> str:
    what = f"{table} {batch_id}"
    if not said:
        return f"{what}: passed, {len(checks)} of {len(checks)} expectations hold."
    more = f" (and {len(said) - _SHOWN} more)" if len(said) > _SHOWN else ""
    follows = {
        "pass": f"Published: the policy lets it pass. `assay report` shows the expectations of {table}.",
        "warn": "Published with a warning.",
        "hold": f"Its rows wait in {table}_held. {_DECIDE}.",
        "stop": f"Nothing was committed. {_DECIDE}, or mend the cause and run again.",
    }[outcome]
    if is_published and outcome != "pass":
        follows = "The table stands as it is: nothing was changed by this."
        if outcome == "stop":
            follows += " `assay where` follows one record; a backfill (recompute, replay) mends what can be computed again."
    verb = {"pass": "passed", "warn": "warned", "hold": "held", "stop": "stopped"}[outcome]
    return f"{what}: {verb}. Not as expected: {'; '.join(said[:_SHOWN])}{more}. {follows}"


def _first_line(fault: Exception) -> str:
    return next(iter(str(fault).strip().splitlines()), "no message")[:200]
