"""What became of each batch: its books, its verdict, and what a person decided about it."""

from __future__ import annotations

from typing import Any

from spark_jobs.report.views import LakeViews
from spark_jobs.spec.books import TERMS, Books
from spark_jobs.spec.replays import taken_from

OPEN_STATES = ("held", "stopped", "released", "rejected")
"""held: rows wait in `<table>_held`. stopped: nothing was committed. released, rejected: decided, the next run carries it out."""

_WAITING_SQL = """
WITH judged AS (
    SELECT pipeline, layer, "table", batch_id, arg_max(outcome, evaluated_at) AS outcome, arg_max(sentence, evaluated_at) AS sentence,
           arg_max(verdict_id, evaluated_at) AS verdict_id, arg_max(run_id, evaluated_at) AS run_id, max(evaluated_at) AS evaluated_at,
           max(element_count) AS rows
      FROM _ops.verdicts WHERE layer <> 'tables' GROUP BY ALL
), booked AS (
    SELECT "table", split_part(batch_id, '.', 1) AS batch_id, max(held) AS held, max(decision) AS carried_out
      FROM _ops.books GROUP BY ALL
), decided AS (
    SELECT "table", batch_id, arg_max(decision, decided_at) AS decision, arg_max(who, decided_at) AS who,
           arg_max(note, decided_at) AS note, max(decided_at) AS decided_at
      FROM _ops.decisions GROUP BY ALL
)
SELECT judged.pipeline, judged.layer, judged."table", judged.batch_id,
       CASE WHEN carried_out IS NOT NULL THEN 'done (' || carried_out || ')'
            WHEN decision = 'superseded' THEN 'superseded'
            WHEN decision = 'release' THEN 'released' WHEN decision = 'reject' THEN 'rejected'
            WHEN judged.outcome = 'hold' AND booked.batch_id IS NOT NULL THEN 'held' ELSE 'stopped' END AS state,
       coalesce(booked.held, judged.rows) AS rows, sentence, verdict_id, judged.run_id, evaluated_at, who, note, decided_at
  FROM judged
  LEFT JOIN booked ON booked."table" = judged."table" AND booked.batch_id = judged.batch_id
  LEFT JOIN decided ON decided."table" = judged."table" AND decided.batch_id = judged.batch_id
 WHERE (judged.outcome = 'hold' OR (judged.outcome = 'stop' AND (booked.batch_id IS NULL OR carried_out IS NOT NULL)))
   AND ($all OR (carried_out IS NULL AND decision IS DISTINCT FROM 'superseded'))
   AND NOT starts_with(judged.batch_id, 'replay-')  -- a replay that was stopped has changed nothing: it is replayed again, not released
 ORDER BY evaluated_at, judged."table", judged.batch_id
"""


def waiting_batches(views: LakeViews, *, pipeline: str = "", also_done: bool = False) -> list[dict[str, Any]]:
    """Batches that a gate held or stopped, oldest first: state (see OPEN_STATES), rows, the verdict's sentence, and any decision."""
    rows = views.rows(_WAITING_SQL, {"all": also_done})
    return [row for row in rows if not pipeline or row["pipeline"] == pipeline]


def is_after_decision(row: dict[str, Any]) -> bool:
    """True for books that carry out a decision on a batch that was held: its rows were already read once, by the batch itself."""
    return "." in row["batch_id"] and taken_from(row["batch_id"]) is None


def books_of(row: dict[str, Any]) -> Books:
    """The terms of a row of `_ops.books`; balance and equation are computed from them anew, never taken from the row."""
    return Books(**{term: int(row[term] or 0) for term in TERMS})


def total_books(rows: list[dict[str, Any]], *, of_one_run: bool = False) -> Books:
    """The books of many batches of one table as one. Rows that were held and have been decided since count once, where they went; so do
    those that a replay has taken up again.

    When the batch that was held is not among `rows` (they are of one run), the decision's own books count as they stand; and so do a
    replay's, if told that the rows are `of_one_run`.
    """
    totals = dict.fromkeys(TERMS, 0)
    batches = {(row["table"], row["batch_id"]) for row in rows}
    for row in rows:
        was = taken_from(row["batch_id"]) if not of_one_run else None
        if is_after_decision(row) and (row["table"], row["batch_id"].split(".")[0]) in batches:
            was = "held"
        for term in TERMS:
            if not (was and term == "read"):
                totals[term] += int(row[term] or 0)
        if was:
            totals[was] -= int(row["read"] or 0)
    return Books(**totals)
