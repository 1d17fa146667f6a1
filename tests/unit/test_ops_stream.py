"""Rows of a batch that come in pieces: written in one commit, replaced when the batch is repeated, gone when it has none any more."""

import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError

from spark_jobs.io import ops as ops_module
from spark_jobs.io.lake import lake_table
from spark_jobs.io.ops import SCHEMAS, Ops
from spark_jobs.spec.tables import AMENDMENTS
from tests.builders.ops_rows import ACTIVITY, DENIED, small_settings


@pytest.fixture
def settings(tmp_path):
    return small_settings(tmp_path)


def pieces(*numbers, table=ACTIVITY, batch_id="v1-1", size=2):
    rows = [{"table": str(table), "batch_id": batch_id, "events": number} for number in numbers]
    for start in range(0, len(rows), size):
        yield pa.RecordBatch.from_pylist(rows[start : start + size], schema=SCHEMAS[AMENDMENTS])


def stored(ops):
    return sorted((row["table"], row["batch_id"], row["events"]) for row in ops.read(AMENDMENTS).to_pylist())


def put(ops, *numbers, table=ACTIVITY, batch_id="v1-1"):
    ops.replace_batch_stream(AMENDMENTS, of=table, batch_id=batch_id, rows=lambda: pieces(*numbers, table=table, batch_id=batch_id))


def test_pieces_are_one_commit_and_replace_what_an_earlier_try_wrote(settings):
    ops = Ops(settings)
    put(ops)
    assert not ops.exists(AMENDMENTS), "no rows, no table"
    put(ops, 1, 2, 3, 4, 5)
    assert lake_table(settings, AMENDMENTS).version() == 0
    put(ops, 7, table=DENIED)
    put(ops, 8, batch_id="v1-2")
    put(ops, 1, 2, 9)
    others = [(str(ACTIVITY), "v1-2", 8), (str(DENIED), "v1-1", 7)]
    assert stored(ops) == [*[(str(ACTIVITY), "v1-1", number) for number in (1, 2, 9)], *others]
    put(ops)
    assert stored(ops) == others
    version = lake_table(settings, AMENDMENTS).version()
    put(ops)
    assert lake_table(settings, AMENDMENTS).version() == version, "nothing to take out, so no commit"


def test_a_try_that_lost_its_commit_asks_for_the_rows_anew(settings, monkeypatch):
    ops, write, tries = Ops(settings), ops_module.write_deltalake, []

    def loses_once(place, data, **how):
        tries.append(place)
        if len(tries) == 1:
            list(data)  # what it has read is gone
            raise CommitFailedError("somebody else was quicker")
        write(place, data, **how)

    monkeypatch.setattr(ops_module, "write_deltalake", loses_once)
    put(ops, 1, 2, 3)
    assert len(tries) == 2
    assert [events for *_, events in stored(ops)] == [1, 2, 3]
