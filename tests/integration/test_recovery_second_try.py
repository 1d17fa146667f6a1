"""A second try may find files changed or half of its work done: what the first try left must neither stay nor be doubled."""

import pytest

from spark_jobs.jobs import decisions, publishing
from spark_jobs.spec.tables import DECISIONS
from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.corpus import FOLDER, good_file
from tests.builders.deliveries import NOT_TEXT, text
from tests.builders.ended_at import ended_at
from tests.builders.landing_files import document, log_path, packed

SILVER, HELD = "silver.cloudtrail_events", "silver.cloudtrail_events_held"
FIRST = "v1-00000000"


def test_quarantined_pieces_of_a_file_that_has_vanished_since_are_taken_out_again(stack):
    file = stack.land(log_path(1), packed(document([text(1), NOT_TEXT])))
    stack.land(log_path(2), packed(document([text(2)])))
    stack.discover()
    with ended_at(publishing, "append_once"):
        stack.run()
    assert len(stack.rows("bronze.cloudtrail_records_quarantine")) == 1
    file.unlink()
    assert stack.run() is None
    assert stack.rows("bronze.cloudtrail_records_quarantine") == []
    (books,) = [row for row in stack.rows("_ops.books") if row["layer"] == "bronze"]
    assert (books["written"], books["quarantined"], books["files_ok"], books["files_failed"]) == (1, 0, 1, 1)


@pytest.mark.parametrize(("decision", "written", "quarantined", "duplicate"), [("release", 2, 0, 1), ("reject", 0, 3, 0)])
def test_a_decision_whose_run_is_killed_at_each_of_its_steps_is_carried_out_once(stack, decision, written, quarantined, duplicate):
    stack.land(f"{FOLDER}/odd_account.json.gz", good_file(1, 2, 3, recipientAccountId="not-an-account"))
    stack.discover()
    assert stack.run() is None
    assert stack.arrow(HELD).num_rows == 3
    stack.land(f"{FOLDER}/one_of_them_again.json.gz", good_file(3, 4))
    stack.discover()
    assert stack.run() is None
    row = {"decision_id": "d", "pipeline": "cloudtrail", "table": SILVER, "batch_id": FIRST, "decision": decision, "who": "ana", "note": ""}
    stack.ops.append(DECISIONS, [row | {"decided_at": stack.clock()}])

    side = (decisions, "replace_batch_rows")  # first the duplicates or the quarantine, then the held rows are taken away
    steps = [(*side, "before", 1), (*side, "after", 1), (decisions, "append_once", "after", 1), (*side, "after", 1)]
    seen = []
    for step in (*steps, (decisions, "write_books", "before", 1)):
        with ended_at(*step):
            stack.run()
        seen.append((stack.arrow(SILVER).num_rows, stack.arrow(HELD).num_rows))
    assert seen == [(2, 3), (2, 3), (2 + written, 3), (2 + written, 0), (2 + written, 0)]
    assert stack.run() is None
    accounted = assert_every_record_accounted_for(stack)
    assert (accounted.silver, accounted.quarantined, accounted.duplicate, accounted.held) == (2 + written, quarantined, duplicate, 0)
    assert stack.run() is None
    assert assert_every_record_accounted_for(stack) == accounted
