"""A checkpoint that is not whole, or not this table's, is refused before anything is written; one that a crash left is not."""

import json
import re
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from spark_jobs.io.checkpoint import Checkpoint
from spark_jobs.io.delta_log import START, Position
from spark_jobs.spec.errors import CheckpointDamaged
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import TableId
from tests.builders.streamed_table import SOURCE, TABLE, StreamedTable


@pytest.fixture
def streamed(tmp_path):
    """Batches 0 to 3, all finished."""
    made = StreamedTable(load_settings(lake=str(tmp_path / "lake")))
    for number in range(4):
        made.batch(number)
    return made


def _remove(name):
    def damage(streamed):
        path = streamed.folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return damage


def _write(name, content):
    return lambda streamed: (streamed.folder / name).write_bytes(content)


def _cut(name, lines):
    def damage(streamed):
        path = streamed.folder / name
        path.write_text("\n".join(path.read_text().splitlines()[:lines]))

    return damage


def _both(*damages):
    return lambda streamed: [damage(streamed) for damage in damages]


def _checkpoint_of_another_source(streamed):
    known = json.loads((streamed.folder / "assay.json").read_text())
    (streamed.folder / "assay.json").write_text(json.dumps(known | {"source_id": "11111111-2222"}))


def _checkpoint_of_another_table(streamed):
    known = json.loads((streamed.folder / "assay.json").read_text())
    (streamed.folder / "assay.json").write_text(json.dumps(known | {"table": "silver.y_events"}))


def _offsets_of_another_source(streamed):
    path = streamed.folder / "offsets" / "3"
    path.write_text(path.read_text().replace(streamed.source_id, "11111111-2222"))


def _table_removed(streamed):
    shutil.rmtree(streamed.settings.location(TABLE))


def _newer_generation_removed(streamed):
    """The table went on under v2, whose folder is gone, so v1 would be taken for the newest."""
    path = Path(streamed.settings.location(TABLE)) / "_delta_log" / f"{3:020d}.json"
    path.write_text(path.read_text().replace("v1-00000003", "v2-00000000"))


REFUSED = {
    "whole folder": (_remove(""), r"v1/assay.json is missing although silver.x_events was already written"),
    "generation file": (_remove("assay.json"), r"v1/assay.json is missing although silver.x_events was already written"),
    "generation file empty": (_write("assay.json", b""), r"v1/assay.json is not readable"),
    "generation file of fewer fields": (_write("assay.json", b"{}"), r"v1/assay.json is not readable"),
    "metadata": (_remove("metadata"), r"v1/metadata is missing"),
    "metadata empty": (_write("metadata", b""), r"v1/metadata is damaged"),
    "metadata garbage": (_write("metadata", b"\xff\xfe{"), r"v1/metadata is damaged"),
    "newest offsets": (_remove("offsets/3"), r"v1/offsets/3 is missing"),
    "offsets empty": (_write("offsets/3", b""), r"v1/offsets/3 is damaged"),
    "offsets garbage": (_write("offsets/3", b"v1\n\x00\x00\x00"), r"v1/offsets/3 is damaged"),
    "offsets cut before the place": (_cut("offsets/3", 2), r"v1/offsets/3 is damaged: it does not name a place in a Delta table"),
    "offsets cut in the middle of the place": (
        lambda streamed: _write("offsets/3", (streamed.folder / "offsets/3").read_bytes()[:-20])(streamed),
        r"v1/offsets/3 is damaged",
    ),
    "newest offsets but one empty": (_write("offsets/2", b""), r"v1/offsets/2 is damaged"),
    "all offsets": (_remove("offsets"), r"v1/offsets/3 is missing"),
    "newest of both": (_both(_remove("offsets/3"), _remove("commits/3")), r"v1/offsets/3 is missing: silver.x_events holds batch 3"),
    "all of both": (_both(_remove("offsets"), _remove("commits")), r"v1/offsets/3 is missing: silver.x_events holds batch 3"),
    "a middle offset": (_remove("offsets/1"), r"v1/offsets/1 is missing between others"),
    "a middle commit": (_remove("commits/1"), r"v1/commits/1 is missing between others"),
    "two newest commits": (_both(_remove("commits/2"), _remove("commits/3")), r"v1/commits/2 is missing: batch 3 was begun after it"),
    "commits empty": (_write("commits/3", b""), r"v1/commits/3 is damaged"),
    "another source": (_checkpoint_of_another_source, r"v1 was made for another bronze.x_records"),
    "another source's offsets": (_offsets_of_another_source, r"v1/offsets/3 counts in another table \(id 11111111-2222\)"),
    "another table": (_checkpoint_of_another_table, r"v1 belongs to silver.y_events reading bronze.x_records, not to silver.x_events"),
    "table removed": (_table_removed, r"silver.x_events holds batches up to -1, its checkpoint .*v1 says 3 were committed"),
    "table restored": (
        lambda streamed: streamed.restore(1),
        r"silver.x_events ends with batch v1-00000001 \(its version 1\), the checkpoint .*v1 with v1-00000003",
    ),
    "newer generation removed": (_newer_generation_removed, r"silver.x_events ends with batch v2-00000000"),
}  # fmt: skip

WHAT_TO_DO = r"(from a backup|remove that commit's file).* [Nn]othing was written by this run\.$"


@pytest.mark.parametrize("case", REFUSED)
def test_damage_is_refused_with_the_file_and_what_to_do(streamed, case):
    damage, sentence = REFUSED[case]
    streamed.start()
    damage(streamed)
    with pytest.raises(CheckpointDamaged, match=sentence) as refusal:
        streamed.start()
    assert str(streamed.folder) in str(refusal.value)
    assert re.search(WHAT_TO_DO, str(refusal.value))


HARMLESS = {
    "newest commit, as after a crash": _remove("commits/3"),
    "oldest of both, as Spark cleans up": _both(_remove("offsets/0"), _remove("commits/0")),
    "an old file that no restart reads": _write("offsets/1", b""),
    "temporary files of a killed writer": _both(_write("offsets/.4.tmp", b"v1"), _write("commits/.3.crc", b"")),
    "a table compacted": lambda streamed: DeltaTable(streamed.settings.location(TABLE)).optimize.compact(),
    "a restore that a second one undid": lambda streamed: [streamed.restore(version) for version in (1, 3)],
}


@pytest.mark.parametrize("case", HARMLESS)
def test_what_a_crash_or_upkeep_leaves_is_not_refused(streamed, case):
    HARMLESS[case](streamed)
    streamed.start()


@pytest.mark.parametrize(("committed", "finished"), [(False, False), (True, False)])
def test_a_run_killed_at_its_commit_can_start_again(streamed, committed, finished):
    streamed.batch(4, committed=committed, finished=finished)
    streamed.start()


def test_a_restore_is_undone_by_removing_its_commit(streamed):
    streamed.restore(1)
    with pytest.raises(CheckpointDamaged):
        streamed.start()
    (Path(streamed.settings.location(TABLE)) / "_delta_log" / f"{4:020d}.json").unlink()
    streamed.start()


def test_a_restore_to_a_point_in_time_names_its_commit(streamed):
    streamed.restore(1)
    commit = Path(streamed.settings.location(TABLE)) / "_delta_log" / f"{4:020d}.json"
    commit.write_text(commit.read_text().replace('"version":"1"', '"timestamp":"2024-05-01 12:00:00"'))
    with pytest.raises(CheckpointDamaged, match=r"_delta_log/00000000000000000004.json restored silver.x_events to a point in time"):
        streamed.start()


def test_the_first_start_makes_a_generation_and_the_next_one_finds_it(tmp_path):
    streamed = StreamedTable(load_settings(lake=str(tmp_path / "lake")))
    assert Checkpoint(streamed.settings, TABLE, SOURCE).open() == streamed.generation
    assert (streamed.generation.name, streamed.generation.table, streamed.generation.source) == ("v1", str(TABLE), str(SOURCE))
    assert Checkpoint(streamed.settings, TABLE, SOURCE).position() == START


def test_a_first_start_beside_a_side_table_that_exists_is_refused(tmp_path):
    streamed = StreamedTable(load_settings(lake=str(tmp_path / "lake")))
    streamed._append(TableId("silver", "x_events_quarantine"), 0)
    shutil.rmtree(streamed.folder)
    with pytest.raises(CheckpointDamaged, match=r"although silver.x_events_quarantine was already written"):
        streamed.start()


def test_the_position_counts_finished_batches_only(streamed):
    assert streamed.checkpoint.position() == Position(4, -1)
    streamed.batch(4, finished=False)
    assert streamed.checkpoint.position() == Position(4, -1)
    assert streamed.checkpoint.source_version(4) == 4
    assert streamed.checkpoint.source_version(3) == 3


def test_two_generations_have_transactions_of_their_own(streamed):
    later = Path(streamed.settings.checkpoint(TABLE)) / "v2"
    later.mkdir()
    assert Checkpoint(streamed.settings, TABLE, SOURCE).batch_id(7) == "v2-00000007"
