"""Gate: what the verdicts of one run say about one layer, for the task that turns red. Starts no JVM and evaluates nothing itself."""

from __future__ import annotations

import argparse
from typing import Any

from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.spec.books import TERMS, Books
from spark_jobs.spec.errors import BooksUnbalanced, GateStopped
from spark_jobs.spec.gates import OUTCOMES
from spark_jobs.spec.tables import BOOKS, LAYERS, VERDICTS

TABLES = "tables"  # beside the layers: what `check_tables` says about whole tables
_BOOKS = ["table", "batch_id", "outcome", "decision", "is_balanced", "finished_at", *TERMS]
_VERDICTS = ["table", "batch_id", "outcome", "sentence", "evaluated_at"]


def gate(run: Run, layer: str) -> dict[str, Any]:
    """The strictest outcome of the layer's batches in this run: `outcome`, `sentence`, and the `tables` this run published to.

    `tables` are the suites over whole tables, which have verdicts and no books: they change nothing.
    `none` when the run wrote no batch of the layer. A batch with rows but without a verdict is `stop`: nobody vouched for it.
    Raises BooksUnbalanced when a batch's terms do not add up.
    """
    mine = {"pipeline": run.pipeline.name, "layer": layer, "run_id": run.run_id}
    books = {(row["table"], row["batch_id"]): row for row in _newest(run.ops.read(BOOKS, _BOOKS, equal=mine).to_pylist(), "finished_at")}
    judged = run.ops.read(VERDICTS, _VERDICTS, equal=mine).to_pylist()
    verdicts = {(row["table"], row["batch_id"]): row for row in _newest(judged, "evaluated_at")}
    said: list[tuple[str, str]] = []
    for key in sorted(books.keys() | verdicts.keys()):
        if layer == TABLES:
            said.append((verdicts[key]["outcome"], verdicts[key]["sentence"]))
        else:
            said.append(_judged(key, books.get(key), verdicts.get(key), gates=run.settings.gates))
    published = sorted({row["table"] for row in books.values() if row["written"]})
    if not said and layer == TABLES:
        return {"outcome": "none", "sentence": "This run judged no whole table, so there is nothing to say.", "tables": []}
    if not said:
        return {"outcome": "none", "sentence": f"{layer}: this run wrote no batch, so there is nothing to judge.", "tables": []}
    outcome = max((outcome for outcome, _ in said), key=lambda one: OUTCOMES.index(one))
    worst = [sentence for one, sentence in said if one == outcome]
    if outcome == "pass" and layer == TABLES:
        sentence = " ".join(worst)
    elif outcome == "pass":
        written = sum(row["written"] for row in books.values())
        note = "" if run.settings.gates else " (the gates are switched off)"
        sentence = f"{layer} passed: {len(said)} batch{'es' if len(said) != 1 else ''}, {written:,} rows written{note}."
    else:
        sentence = " ".join(worst[:3]) + (f" (and {len(worst) - 3} more)" if len(worst) > 3 else "")
    return {"outcome": outcome, "sentence": sentence, "tables": published}


def _judged(key: tuple[str, str], books: dict[str, Any] | None, verdict: dict[str, Any] | None, *, gates: bool) -> tuple[str, str]:
    table, batch_id = key
    if books is None:
        assert verdict is not None
        # Judged but not written: a stop is just that; anything else means that the job ended before its books.
        if verdict["outcome"] == "stop":
            return "stop", verdict["sentence"]
        return "stop", f"{table} {batch_id} was judged '{verdict['outcome']}' but has no books: its job ended before them. Run again."
    terms = Books(**{term: int(books[term] or 0) for term in TERMS})
    if not (terms.is_balanced and books["is_balanced"]):
        raise BooksUnbalanced(f"{table} {batch_id}: the books do not balance: {terms.equation()}. See `assay books`.")
    if books["decision"]:
        done = "published in spite of its verdict" if books["decision"] == "release" else "sent to quarantine"
        return "warn", f"{table} {batch_id} was {done} by a person's decision ({terms.equation()})."
    if verdict is None:
        if gates and terms.written:
            return "stop", f"{table} {batch_id}: {terms.written:,} rows were written without a verdict."
        return books["outcome"], f"{table} {batch_id}: {terms.equation()}."
    return verdict["outcome"], verdict["sentence"]


def _newest(rows: list[dict[str, Any]], by: str) -> list[dict[str, Any]]:
    """Sorted so that of several rows of one batch the newest one is the last (a retried task judges its batch again)."""
    return sorted(rows, key=lambda row: row[by])


def _work(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """Say what the gate of a layer decided in this run; exit code 6 when it stopped."""
    found = gate(run, options.layer)
    run.say(found["sentence"])
    return found


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--layer", required=True, choices=(*LAYERS, TABLES), help="bronze, silver, gold or tables")


def main() -> int:
    """run_job's exit code, or GateStopped's when the outcome is stop."""
    outcomes: list[str] = []

    def work(run: Run, options: argparse.Namespace) -> dict[str, Any]:
        found = _work(run, options)
        outcomes.append(found["outcome"])
        return found

    code = run_job("gate", work, _add_options)
    return code or (GateStopped.exit_code if outcomes == ["stop"] else 0)


if __name__ == "__main__":
    leave(main())
