"""A batch that is run again may find its files or its gate changed; what the first try left beside the table must not stay."""

import pytest

from spark_jobs.jobs import publishing
from tests.builders.deliveries import NOT_TEXT, text
from tests.builders.landing_files import document, log_path, packed


class Killed(Exception):
    """Stands for the end of the driver at that line."""


def _killed_before_the_commit(monkeypatch, stack, layer):
    def killed(*arguments, **named):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(publishing, "append_once", killed)
        with pytest.raises(Killed):
            stack.run(layer)


def test_quarantined_pieces_of_a_file_that_has_vanished_since_are_taken_out_again(stack, monkeypatch):
    file = stack.land(log_path(1), packed(document([text(1), NOT_TEXT])))
    stack.land(log_path(2), packed(document([text(2)])))
    stack.discover()
    _killed_before_the_commit(monkeypatch, stack, "bronze")
    assert len(stack.rows("bronze.cloudtrail_records_quarantine")) == 1
    file.unlink()
    assert stack.run() is None
    assert stack.rows("bronze.cloudtrail_records_quarantine") == []
    (books,) = [row for row in stack.rows("_ops.books") if row["layer"] == "bronze"]
    assert (books["written"], books["quarantined"], books["files_ok"], books["files_failed"]) == (1, 0, 1, 1)
