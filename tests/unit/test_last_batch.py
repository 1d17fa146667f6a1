"""What a table's own log says about its newest batch, and what a source's log says about a start: read without a JVM."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from spark_jobs.io.checkpoint import Checkpoint
from spark_jobs.io.delta_log import Position, RestoredToUnknown
from spark_jobs.io.last_batch import LastBatch, last_batch
from spark_jobs.io.taken import begin_after
from spark_jobs.spec.errors import CheckpointDamaged, SourceChanged
from spark_jobs.spec.settings import load_settings
from tests.builders.streamed_table import SOURCE, TABLE, StreamedTable


@pytest.fixture
def streamed(tmp_path):
    """Batches 0 to 3, all finished; the source is at version 4."""
    made = StreamedTable(load_settings(lake=str(tmp_path / "lake")))
    for number in range(4):
        made.batch(number)
    return made


def _commit(streamed, table, version):
    return Path(streamed.settings.location(table)) / "_delta_log" / f"{version:020d}.json"


def test_a_restore_takes_batches_back_and_a_second_one_gives_them_again(streamed):
    assert last_batch(streamed.settings, TABLE).batch_id == "v1-00000003"
    streamed.restore(1)
    found = last_batch(streamed.settings, TABLE)
    assert (found.batch_id, found.undone, found.was_restored) == ("v1-00000001", {"v1-00000002", "v1-00000003"}, True)
    assert [found.is_void(f"v1-0000000{number}") for number in range(4)] == [False, False, True, True]
    streamed.restore(3)
    assert last_batch(streamed.settings, TABLE).batch_id == "v1-00000003"
    commit = _commit(streamed, TABLE, 5)
    commit.write_text(commit.read_text().replace('"version":"3"', '"timestamp":"2024-05-01 12:00:00"'))
    with pytest.raises(RestoredToUnknown):
        last_batch(streamed.settings, TABLE)


def test_a_batch_is_void_when_the_table_has_no_commit_of_it_that_counts():
    last = LastBatch(exists=True, batch_id="v2-00000003", undone={"replay-00000002", "v1-00000001.release"})
    void = {"v2-00000004", "v3-00000000", "replay-00000002", "replay-00000002.from-silver", "v1-00000001.release"}
    counted = {"v2-00000003", "v1-00000009", "v1-00000001", "v1-00000002.reject", "replay-00000001"}
    assert {name for name in void | counted if last.is_void(name)} == void
    assert all(LastBatch().is_void(name) for name in void | counted)  # without its table nothing counts


def _next_start(streamed, **how):
    return [str(fault) for fault in Checkpoint(streamed.settings, TABLE, SOURCE, **how).faults()]


def test_a_source_whose_log_is_cut_is_noticed_where_a_start_reads_it(streamed):
    """Spark plans the newest batch once more, from where the one before it ended: here source version 3."""
    gone = _commit(streamed, SOURCE, 3)
    text = gone.read_text()
    DeltaTable(streamed.settings.location(SOURCE)).create_checkpoint()
    for version in range(3):
        _commit(streamed, SOURCE, version).unlink()
    assert _next_start(streamed) == []
    gone.unlink()
    (said,) = _next_start(streamed)
    assert f"The log of {SOURCE} no longer has the commit of version 3" in said
    gone.write_text(text)
    assert _next_start(streamed) == []


def test_a_source_that_was_set_back_or_changed_in_place_is_noticed(streamed):
    DeltaTable(streamed.settings.location(SOURCE)).delete("n = 1")  # its version 5, after all was read
    faults = list(Checkpoint(streamed.settings, TABLE, SOURCE).faults())
    assert [type(fault) for fault in faults] == [SourceChanged]
    assert f"{TABLE} cannot go on: rows of its source {SOURCE} were changed in place by DELETE in the source's version 5" in str(faults[0])
    assert _next_start(streamed, reads_changes=True) == []
    for version in (5, 4, 3):
        _commit(streamed, SOURCE, version).unlink()
    (fault,) = Checkpoint(streamed.settings, TABLE, SOURCE).faults()
    assert isinstance(fault, CheckpointDamaged) and "which now ends with version 2: the source was set back" in str(fault)


@pytest.mark.parametrize(
    ("taken", "begin"),
    [
        ([1, 1, 1, 1, 1], (Position(5, -1), -1)),
        ([1, 1, 1, 0, 0], (Position(3, -1), -1)),
        ([0, 0, 0, 0, 0], (Position(0, -1), -1)),
        ([1, 0, 1, 0, 0], (Position(1, -1), 2)),
    ],
)
def test_a_query_begins_before_the_first_row_that_was_not_taken(streamed, taken, begin):
    found = begin_after(streamed.settings, SOURCE, 0, lambda files: [(1, taken[file.version]) for file in files])
    assert (found.position, found.taken_until) == begin
