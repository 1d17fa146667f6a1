"""The progress of every batch beside its books: none missing, none twice, the same counts and versions."""

from __future__ import annotations

import json

from tests.builders.stack import Stack


def assert_progress_matches_books(stack: Stack) -> None:
    books = {(row["table"], row["batch_id"]): row for row in stack.rows("_ops.books")}
    rows = stack.rows("_ops.progress")
    batches = [(row["table"], row["batch_id"]) for row in rows]
    assert len(set(batches)) == len(batches)
    booked = {(table, row["batch_id"]): row for row in rows for table in json.loads(row["targets"])}
    assert set(booked) == set(books)
    for key, row in booked.items():
        assert json.loads(row["targets"])[key[0]] == books[key]["target_version"]
        assert row["source_version"] == books[key]["source_version"]
        assert row["run_id"] == books[key]["run_id"]
        if row["table"] == key[0]:
            assert (row["input_rows"], row["target_version"]) == (books[key]["read"], books[key]["target_version"])
        assert row["duration_ms"] > 0
        assert row["started_at"] <= books[key]["finished_at"]
