"""One set of files as any sequence of increments, and what must be the same whatever the sequence was."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from spark_jobs.spec.tables import LAYERS, Layer
from tests.builders.deliveries import ANY_ORDER, deliver
from tests.builders.stack import Stack

FILES_PER_BATCH = (1, 3, 512)  # many micro-batches within an increment, some, one


@dataclass(frozen=True)
class Increment:
    """Files that land together, and how far the run after them gets."""

    files: tuple[str, ...]
    layers: tuple[Layer, ...]


@st.composite
def increments(draw: st.DrawFn, most: int = 4) -> list[Increment]:
    """The files of `ANY_ORDER` shuffled, cut into up to `most` pieces; a run after each piece that may end after any layer."""
    names = draw(st.permutations(sorted(ANY_ORDER)))
    cuts = sorted(draw(st.sets(st.integers(1, len(names) - 1), min_size=1, max_size=most - 1)))
    pieces = [tuple(names[start:end]) for start, end in zip([0, *cuts], [*cuts, len(names)], strict=True)]
    return [Increment(piece, LAYERS[: draw(st.integers(1, 3))]) for piece in pieces]


def run_increments(stack: Stack, steps: list[Increment]) -> None:
    """Land, discover and run each; at the end all layers and the daily gold, so that nothing is left unread."""
    for step in steps:
        deliver(stack.landing, {name: ANY_ORDER[name] for name in step.files})
        stack.discover()
        assert stack.run(*step.layers) is None
        if len(step.files) % 2:  # some increments have a day's end after them
            assert stack.daily()["stopped"] is None
    assert stack.run() is None
    assert stack.daily()["stopped"] is None


def published(stack: Stack) -> dict[str, Any]:
    """All tables in all columns without leading underscore, the record's own text and reasons; and the sums of the books.

    `kept_rid` names the arrival that came first, which is a matter of order: it is only checked to be another arrival of the event.
    """
    found: dict[str, Any] = {str(table): stack.content(str(table)) for table in stack.pipeline.all_tables}
    for layer in ("bronze", "silver"):
        (table,) = stack.pipeline.tables(layer)
        found[f"{layer} quarantine"] = stack.content(str(table.side("quarantine")))
    repeated = stack.rows(str(stack.pipeline.silver_table.side("duplicates")))
    kept = {row["event_id"]: row["_rid"] for row in stack.rows(str(stack.pipeline.silver_table), ["event_id", "_rid"])}
    assert all(row["kept_rid"] == kept[row["event_id"]] != row["_rid"] for row in repeated)
    found["duplicates"] = sorted(json.dumps([row["event_id"], str(row["event_date"]), row["is_conflicting"]]) for row in repeated)
    outcomes = stack.rows("_ops.file_outcomes", ["path", "outcome", "rule", "records", "quarantined"])
    found["outcomes"] = sorted(json.dumps(row | {"path": row["path"].rsplit("/", 1)[-1]}, sort_keys=True) for row in outcomes)
    books = stack.rows("_ops.books")
    assert all(row["is_balanced"] for row in books)
    for layer in ("bronze", "silver"):
        sums: Counter[str] = Counter()
        for row in books:
            if row["layer"] == layer:
                sums.update({term: row[term] for term in ("read", "written", "quarantined", "duplicate", "held", "files_read", "files_ok")})
        found[f"{layer} books"] = dict(sums)
    return found
