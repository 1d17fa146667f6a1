"""The balance of the whole lake: each batch's equation computed anew, the totals of each table, and the tables themselves counted."""

from __future__ import annotations

from typing import Any

from spark_jobs.report.batches import books_of, is_after_decision, total_books
from spark_jobs.report.views import LakeViews, close_to, known_tables
from spark_jobs.spec.errors import UnknownName
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId

_BOOKS_SQL = """
SELECT * FROM _ops.books
 WHERE ($pipeline = '' OR pipeline = $pipeline) AND ($table = '' OR "table" = $table) AND ($run_id = '' OR run_id = $run_id)
 ORDER BY finished_at, CASE layer WHEN 'bronze' THEN 0 WHEN 'silver' THEN 1 ELSE 2 END, "table", batch_id
"""


def balance(settings: Settings, *, pipeline: str = "", table: str = "", run_id: str = "", count_rows: bool = False) -> dict[str, Any]:
    """The books of the batches asked for: `batches`, `totals` per table, `counted` tables, `is_balanced` and a `sentence`.

    Raises UnknownName for a pipeline or table that does not exist. `count_rows` looks at whole tables, whatever the run.
    """
    if pipeline:
        load_pipeline(pipeline)
    if table and table not in map(str, known_tables()):
        raise UnknownName(f"There is no table {table}: {close_to(table)}")
    views = LakeViews(settings)
    asked = {"pipeline": pipeline, "table": table, "run_id": run_id}
    rows = views.rows(_BOOKS_SQL, asked)
    batches = [_batch(row) for row in rows]
    by_table: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_table.setdefault(row["table"], []).append(row)
    totals = [_total(name, members, of_one_run=bool(run_id)) for name, members in by_table.items()]
    counted = []
    if count_rows:
        everything = views.rows(_BOOKS_SQL, asked | {"run_id": ""}) if run_id else rows
        counted = _counted(views, everything)
    wrong = [f"{row['table']} {row['batch_id']}: {row['equation']}" for row in batches if not row["is_balanced"]]
    wrong += [
        f"{row['table']} holds {row['rows']:,} rows where its books say {row['expected']:,}" for row in counted if not row["is_balanced"]
    ]
    return {
        "batches": batches, "totals": totals, "counted": counted, "is_balanced": not wrong, "sentence": _sentence(batches, counted, wrong),
    }  # fmt: skip


def _batch(row: dict[str, Any]) -> dict[str, Any]:
    books = books_of(row)
    return row | {"is_balanced": books.is_balanced and bool(row["is_balanced"]), "equation": books.equation()}


def _total(table: str, rows: list[dict[str, Any]], *, of_one_run: bool) -> dict[str, Any]:
    books = total_books(rows, of_one_run=of_one_run)
    return {"table": table, "batches": len(rows), **books.terms(), "equation": books.equation(), "is_balanced": books.is_balanced}


def _counted(views: LakeViews, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of each bronze and silver table and of its side tables, beside the books. (Gold is recomputed: its books are not its sum.)"""
    found = []
    for name in dict.fromkeys(row["table"] for row in rows if row["layer"] != "gold"):
        table, mine = TableId.parse(name), [row for row in rows if row["table"] == name]
        books = total_books(mine)
        expected = {table: books.written, table.side("quarantine"): books.quarantined, table.side("held"): books.held}
        if table.layer == "silver":
            expected[table.side("duplicates")] = books.duplicate
        for counted, count in expected.items():
            actual = views.rows(f"SELECT count(*) AS n FROM {counted}")[0]["n"] if views.exists(counted) else 0
            found.append({"table": str(counted), "rows": actual, "expected": count, "is_balanced": actual == count})
    return found


def _sentence(batches: list[dict[str, Any]], counted: list[dict[str, Any]], wrong: list[str]) -> str:
    if wrong:
        more = f" (and {len(wrong) - 3} more)" if len(wrong) > 3 else ""
        return f"The books do not balance: {'; '.join(wrong[:3])}{more}. A record is unaccounted for; `assay where` follows one record."
    if not batches:
        return "There are no books yet: no batch was written."
    tables = f", and {len(counted)} tables hold exactly the rows that the books say" if counted else ""
    decided = sum(is_after_decision(row) for row in batches)
    after = f" ({decided} after a decision)" if decided else ""
    return f"Every record is accounted for: {len(batches):,} batches balance{after}{tables}."
