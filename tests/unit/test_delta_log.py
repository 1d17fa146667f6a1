"""What a stream has still to read, from the log alone."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction

from spark_jobs.io.delta_log import START, Position, RestoredToUnknown, added_files, latest_version, removed_files, versions_in_force
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import TableId
from tests.builders.streamed_table import offset

TABLE = TableId("bronze", "x_records")


@pytest.fixture
def settings(tmp_path):
    return load_settings(lake=str(tmp_path / "lake"))


def _commit(settings, *names, rearranged=()):
    """One commit that adds files of these names, some of them only rearranging rows."""
    location = settings.location(TABLE)
    if not DeltaTable.is_deltatable(location):
        DeltaTable.create(location, pa.schema([("n", pa.int64())]))
    actions = [AddAction(name, 10, {}, 0, name not in rearranged, json.dumps({"numRecords": 1})) for name in names]
    DeltaTable(location).create_write_transaction(actions, mode="append", schema=pa.schema([("n", pa.int64())]))


def _names(settings, after, up_to=None):
    return [(file.version, file.path) for file in added_files(settings, TABLE, after, up_to)]


def test_all_files_are_ahead_of_the_start(settings):
    _commit(settings, "a", "b")
    _commit(settings, "c")
    assert _names(settings, START) == [(1, "a"), (1, "b"), (2, "c")]


def test_a_table_that_was_never_written_has_none(settings):
    assert _names(settings, START) == []
    assert latest_version(settings, TABLE) is None


def test_a_position_inside_a_version_leaves_the_rest_of_it(settings):
    _commit(settings, "a", "b", "c")
    _commit(settings, "d")
    assert _names(settings, Position(1, 0)) == [(1, "b"), (1, "c"), (2, "d")]
    assert _names(settings, Position(1, 2)) == [(2, "d")]
    assert _names(settings, Position(2, -1)) == [(2, "d")]
    assert _names(settings, Position(3, -1)) == []


def test_versions_after_the_last_one_asked_for_are_left_out(settings):
    _commit(settings, "a")
    _commit(settings, "b")
    assert _names(settings, START, up_to=1) == [(1, "a")]


def test_files_that_only_rearrange_rows_are_neither_given_nor_counted(settings):
    _commit(settings, "a", "moved", "b", rearranged=("moved",))
    assert _names(settings, START) == [(1, "a"), (1, "b")]
    assert _names(settings, Position(1, 0)) == [(1, "b")]


def test_compaction_adds_nothing(settings):
    for number in range(3):
        write_deltalake(settings.location(TABLE), pa.table({"n": [number]}), mode="append")
    DeltaTable(settings.location(TABLE)).optimize.compact()
    assert latest_version(settings, TABLE) == 3
    assert [version for version, _ in _names(settings, START)] == [0, 1, 2]


def test_a_name_is_given_as_it_is_on_disk(settings):
    """Delta writes paths percent-encoded."""
    write_deltalake(settings.location(TABLE), pa.table({"n": [1], "p": ["a b"]}), partition_by="p")
    (file,) = added_files(settings, TABLE, START)
    assert (Path(settings.location(TABLE)) / file.path).is_file()
    assert file.rows == 1


def test_a_commit_that_was_cleaned_up_is_an_error_not_a_gap(settings):
    _commit(settings, "a")
    _commit(settings, "b")
    DeltaTable(settings.location(TABLE)).create_checkpoint()
    (Path(settings.location(TABLE)) / "_delta_log" / f"{1:020d}.json").unlink()
    with pytest.raises(FileNotFoundError):
        _names(settings, START)
    assert _names(settings, Position(2, -1)) == [(2, "b")]


@pytest.mark.parametrize(("version", "index"), [(3, -1), (0, 0), (12, 999)])
def test_an_offset_of_delta_is_understood(version, index):
    assert Position.of_offset(offset("11111111-2222", version, index)) == Position(version, index)


def test_the_versions_in_force_leave_out_what_a_restore_undid(settings):
    for number in range(4):
        write_deltalake(settings.location(TABLE), pa.table({"n": [number]}), mode="append")
    DeltaTable(settings.location(TABLE)).restore(1)
    write_deltalake(settings.location(TABLE), pa.table({"n": [5]}), mode="append")
    assert [version for version, _ in versions_in_force(settings, TABLE)] == [5, 1, 0]


def test_a_restore_that_does_not_say_where_to_is_not_guessed(settings):
    for number in range(3):
        write_deltalake(settings.location(TABLE), pa.table({"n": [number]}), mode="append")
    DeltaTable(settings.location(TABLE)).restore(0)
    commit = Path(settings.location(TABLE)) / "_delta_log" / f"{3:020d}.json"
    commit.write_text(commit.read_text().replace('"version":"0"', '"timestamp":"2024-05-01 12:00:00"'))
    with pytest.raises(RestoredToUnknown, match="3"):
        list(versions_in_force(settings, TABLE))


def test_files_that_rows_were_taken_out_of_are_told_with_their_partition_but_not_those_that_were_joined(settings):
    location = settings.location(TABLE)
    for n in range(4):
        rows = pa.table({"n": [n, n], "m": [0, 1], "day": ["2024-05-01" if n < 2 else "2024-05-02"] * 2})
        write_deltalake(location, rows, mode="append", partition_by=["day"])
    assert list(removed_files(settings, TABLE, -1)) == []
    DeltaTable(location).delete("n = 3 and m = 1")  # version 4: of one file
    DeltaTable(location).optimize.compact()  # version 5: rearranges
    DeltaTable(location).delete("day = '2024-05-01'")  # version 6: of one joined file
    assert [(file.version, file.partition) for file in removed_files(settings, TABLE, -1)] == [
        (4, {"day": "2024-05-02"}),
        (6, {"day": "2024-05-01"}),
    ]
    assert [file.version for file in removed_files(settings, TABLE, 4)] == [6]
    assert [file.version for file in removed_files(settings, TABLE, -1, up_to=5)] == [4]
    assert list(removed_files(settings, TableId("bronze", "none"), -1)) == []
