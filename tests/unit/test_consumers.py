"""Who still needs which version of a table, and `assay consumers`."""

import json
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from spark_jobs.io.consumers import Need, needed_files, needs_of, read_position
from spark_jobs.io.delta_log import START, Position
from spark_jobs.io.work import silver_app
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.tables import CONSUMERS, FILES
from tests.builders.assay_command import assay, assay_json
from tests.builders.ops_rows import ACTIVITY, BRONZE, SILVER, file_row, gold_row, record, small_settings, write
from tests.builders.streamed_table import offset

CLOUDTRAIL = load_pipeline("cloudtrail")


@pytest.fixture
def settings(tmp_path):
    """Bronze and silver with four commits each, versions 0 to 3."""
    settings = small_settings(tmp_path)
    for index in range(4):
        write(settings, BRONZE, record(settings, "a.gz", index, BRONZE))
        write(settings, SILVER, record(settings, "a.gz", index))
    return settings


def a_checkpoint(folder: Path, table_id: str, *versions: int, finished: int | None = None, snapshot: bool = False) -> str:
    """A stream's checkpoint with one batch per version read up to, of which the first `finished` (default: all) have ended."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    for number, version in enumerate(versions):
        place = offset(table_id, version, -1).replace('"isStartingVersion":false', f'"isStartingVersion":{str(snapshot).lower()}')
        (folder / "offsets" / str(number)).write_text("v1\n{}\n" + place)
        if finished is None or number < finished:
            (folder / "commits" / str(number)).write_text("v1\n{}")
    return str(folder)


def id_of(settings, table):
    return str(DeltaTable(settings.location(table)).metadata().id)


def needs(settings, table):
    return [(need.consumer, need.version) for need in needs_of(settings, [CLOUDTRAIL], table)]


def test_our_own_streams_need_what_they_have_not_read(settings):
    assert needs(settings, BRONZE) == [("the stream silver.cloudtrail_events", 0)]
    a_checkpoint(Path(settings.checkpoint(SILVER)) / "v1", id_of(settings, BRONZE), 2, 3, finished=1)
    assert needs(settings, BRONZE) == [("the stream silver.cloudtrail_events", 2)], "a batch that was begun is made again from its start"
    write(settings, FILES, file_row(settings, "a.gz"))
    assert needs(settings, FILES) == [("the stream bronze.cloudtrail_records", 0)]


def test_gold_needs_the_silver_version_it_names_for_its_audit_and_what_came_after(settings):
    a_checkpoint(Path(settings.checkpoint(CLOUDTRAIL.gold_stream)) / "v1", id_of(settings, SILVER), 4)
    write(settings, ACTIVITY, gold_row())
    named = CommitProperties(app_transactions=[Transaction(silver_app(settings, CLOUDTRAIL), 1, None)])
    gold = DeltaTable(settings.location(ACTIVITY))
    write_deltalake(gold, gold.to_pyarrow_table(), mode="append", commit_properties=named)
    slowest = needs_of(settings, [CLOUDTRAIL], SILVER)[0]
    assert (slowest.consumer, slowest.snapshot, slowest.position) == (f"{ACTIVITY} and its audit", 1, Position(2, -1))
    assert ("the stream gold.cloudtrail", 4) in needs(settings, SILVER)


def test_a_damaged_checkpoint_of_our_own_needs_everything_and_is_said(settings):
    folder = Path(settings.checkpoint(SILVER)) / "v1"
    a_checkpoint(folder, id_of(settings, BRONZE), 2)
    (folder / "offsets" / "0").write_text("v1\n{}\nnonsense")
    (need,) = needs_of(settings, [CLOUDTRAIL], BRONZE)
    assert (need.version, need.fault) == (0, "its checkpoint is damaged, so it needs everything")


def test_a_registered_stream_is_seen_where_its_checkpoint_is_now(settings, tmp_path):
    folder = tmp_path / "siem"
    a_checkpoint(folder, id_of(settings, SILVER), 1)
    said = assay_json(settings, "consumers", "register", "siem", str(SILVER), "--checkpoint", str(folder), "--note", "feeds the SIEM")
    assert said["sentence"] == f"siem is registered: of {SILVER}, everything from version 1 on stays readable."
    assert ("the consumer siem", 1) in needs(settings, SILVER)
    (folder / "offsets" / "1").write_text("v1\n{}\n-\n" + offset(id_of(settings, SILVER), 3, 0))  # a second source, without data
    assert ("the consumer siem", 1) in needs(settings, SILVER), "batch 1 was begun, not finished"
    (folder / "commits" / "1").write_text("v1\n{}")
    assert ("the consumer siem", 3) in needs(settings, SILVER)
    row = next(row for row in assay_json(settings, "consumers", "list") if row["consumer"] == "the consumer siem")
    assert (row["version"], row["latest"], row["needs"]) == (3, 3, "commits from version 3 on")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: None, "it holds no offsets"),
        (lambda folder: a_checkpoint(folder, "another-table", 3), "it reads another table"),
        (lambda folder: (a_checkpoint(folder, "x", 3), (folder / "offsets" / "0").write_text("v1\n{}\n{")), ""),
    ],
)
def test_a_checkpoint_that_cannot_be_read_needs_everything_and_is_said(settings, tmp_path, damage, said):
    damage(tmp_path / "siem")
    printed = assay(settings, "consumers", "register", "siem", str(SILVER), "--checkpoint", str(tmp_path / "siem")).stdout
    assert "cannot be read, so it needs everything" in printed and said in printed
    need = next(need for need in needs_of(settings, [CLOUDTRAIL], SILVER) if need.consumer == "the consumer siem")
    assert need.position == START and need.fault


def test_a_stream_within_its_first_snapshot_needs_that_version_as_a_whole(settings, tmp_path):
    folder = a_checkpoint(tmp_path / "new", id_of(settings, SILVER), 2, snapshot=True)
    assert read_position(folder, id_of(settings, SILVER)) == (Position(2, -1), 2)


def test_a_stream_that_has_finished_no_batch_may_begin_anywhere(settings, tmp_path):
    folder = a_checkpoint(tmp_path / "new", id_of(settings, SILVER), 2, finished=0)
    assert read_position(folder, id_of(settings, SILVER)) == (START, None)


def test_a_pinned_version_is_kept_until_it_is_released(settings):
    assay(settings, "consumers", "register", "quarter", str(SILVER), "--version", "1")
    assert ("the consumer quarter", 1) in needs(settings, SILVER)
    assert assay(settings, "consumers", "register", "quarter", str(SILVER), "--version", "2", exit_code=2).stderr.startswith("A consumer")
    assay(settings, "consumers", "release", "quarter")
    assert "the consumer quarter" not in dict(needs(settings, SILVER))
    assert "none is registered" in assay(settings, "consumers", "release", "quarter", exit_code=2).stderr


def test_what_cannot_be_kept_is_not_registered(settings):
    assert "it is at version 3" in assay(settings, "consumers", "register", "x", str(SILVER), "--version", "9", exit_code=2).stderr
    assert "Give either" in assay(settings, "consumers", "register", "x", str(SILVER), exit_code=2).stderr
    assert "did you mean" in assay(settings, "consumers", "register", "x", "silver.events", "--version", "1", exit_code=2).stderr
    assert not DeltaTable.is_deltatable(settings.location(CONSUMERS))


def test_a_stream_needs_the_files_that_compaction_replaced_and_a_pin_those_of_its_version(settings):
    table = DeltaTable(settings.location(SILVER))
    added = [json.loads(line)["add"]["path"] for version in range(4) for line in _adds(settings, version)]
    table.optimize.compact()
    assert needed_files(settings, Need("", SILVER, Position(2, -1))) == set(added[2:])
    assert needed_files(settings, Need("", SILVER, Position(2, 0))) == set(added[2:]), "the whole of the version it is in"
    assert needed_files(settings, Need("", SILVER, snapshot=1)) == set(added[:2])
    assert needed_files(settings, Need("", SILVER, Position(4, -1))) == set(), "compaction adds nothing for a stream"
    (Path(settings.location(SILVER)) / "_delta_log" / f"{1:020d}.json").unlink()
    assert needed_files(settings, Need("", SILVER, Position(1, -1))) is None


def _adds(settings, version):
    log = Path(settings.location(SILVER)) / "_delta_log" / f"{version:020d}.json"
    return [line for line in log.read_text().splitlines() if "add" in json.loads(line)]
