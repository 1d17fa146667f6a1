"""What maintenance may remove: data files, commits, and what lies beside the tables. Without a JVM."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_jobs.io.consumers import Need, needed_files
from spark_jobs.io.delta_log import Position, added_files
from spark_jobs.io.lease import KEPT_EPOCHS, Lease
from spark_jobs.io.leftovers import remove_old_epochs, remove_old_generations
from spark_jobs.io.maintenance_files import Crowded, crowded_partitions, remove_unneeded, unneeded_files
from spark_jobs.io.maintenance_log import cleans_up_by_itself, remove_old_commits
from spark_jobs.io.ops import SCHEMAS, Ops
from spark_jobs.jobs.compaction import FEW_OPS_FILES
from spark_jobs.jobs.maintain import maintain
from spark_jobs.jobs.run import Run
from spark_jobs.report.write import remove_old_reports
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.tables import BOOKS, FILES, MAINTENANCE, TableId
from tests.builders.kill_at import KillPoint, command
from tests.builders.ops_rows import SILVER, books_row, environment, file_row, small_settings, write
from tests.builders.streamed_table import StreamedTable

TABLE = TableId("silver", "x_events")
DAY = timedelta(days=1)
MONDAY = date(2024, 5, 6)


@pytest.fixture
def settings(tmp_path):
    return small_settings(tmp_path)


def append(settings, *numbers, day=MONDAY, **how):
    rows = pa.table({"n": list(numbers), "day": [day] * len(numbers)})
    write_deltalake(settings.location(TABLE), rows, mode="append", partition_by=["day"], **how)


def log_files(settings, table=TABLE):
    return sorted(path.name for path in (Path(settings.location(table)) / "_delta_log").iterdir() if path.name[0].isdigit())


def now():
    return datetime.now(UTC)


def test_only_closed_quiet_days_with_many_small_files_are_worth_joining(settings):
    for number in range(5):
        append(settings, number)
        append(settings, number, day=MONDAY + DAY)
    append(settings, 9, day=MONDAY - DAY)
    soon = now() + DAY
    found = crowded_partitions(settings, TABLE, "day", closed_before=MONDAY + DAY, quiet_since=soon)
    assert [(one.day, one.files) for one in found] == [(MONDAY, 5)] and isinstance(found[0], Crowded)
    assert len(crowded_partitions(settings, TABLE, "day", closed_before=MONDAY + 2 * DAY, quiet_since=soon)) == 2
    assert crowded_partitions(settings, TABLE, "day", closed_before=MONDAY + DAY, quiet_since=now() - DAY) == [], "being written"


def test_a_file_goes_only_when_it_is_old_replaced_and_needed_by_nobody(settings):
    """Of a table of four commits that was joined since: what a stream before commit 2, and a version that was pinned, still need stays."""
    for number in range(4):
        append(settings, number)
    added = [file.path for file in added_files(settings, TABLE, Position(0, -1))]
    DeltaTable(settings.location(TABLE)).optimize.compact()
    stray = Path(settings.location(TABLE)) / "day=2024-05-06" / "part-of-a-killed-writer.parquet"
    stray.write_bytes(b"x")
    for path in (*stray.parent.glob("*.parquet"), stray):  # as Hadoop writes them on a disk
        path.with_name(f".{path.name}.crc").write_bytes(b"crc")
    assert unneeded_files(settings, TABLE, older_than=7 * DAY) == []
    candidates = unneeded_files(settings, TABLE, older_than=0 * DAY)
    assert set(candidates) == {*added, str(stray.relative_to(settings.location(TABLE)))}

    behind, pinned = Need("the stream s", TABLE, Position(2, -1)), Need("the consumer p", TABLE, snapshot=0)
    swept = remove_unneeded(settings, TABLE, candidates, [pinned, behind])
    assert (swept.removed, swept.kept, swept.kept_from_version) == (2, 3, 0)
    assert swept.held_back_by == ["the consumer p", "the stream s"]
    left = {str(path.relative_to(settings.location(TABLE))) for path in stray.parent.glob("*.parquet")}
    assert {added[0], added[2], added[3]} <= left and added[1] not in left and not stray.exists()
    assert sorted(DeltaTable(settings.location(TABLE)).to_pyarrow_table()["n"].to_pylist()) == [0, 1, 2, 3]
    assert DeltaTable(settings.location(TABLE), version=0).to_pyarrow_table()["n"].to_pylist() == [0]

    assert remove_unneeded(settings, TABLE, candidates, []).removed == 3, "what an earlier one has removed is passed over"
    checksums = {path.name[1:-4] for path in stray.parent.glob(".*.crc")}
    assert checksums == {path.name for path in stray.parent.glob("*.parquet")}, "a checksum goes with its file, and only with it"


def test_a_consumer_whose_commits_are_gone_keeps_everything(settings):
    for number in range(3):
        append(settings, number)
    DeltaTable(settings.location(TABLE)).optimize.compact()
    DeltaTable(settings.location(TABLE)).create_checkpoint()
    (Path(settings.location(TABLE)) / "_delta_log" / f"{0:020d}.json").unlink()
    lost = Need("the consumer lost", TABLE, Position(0, -1))
    assert needed_files(settings, lost) is None
    swept = remove_unneeded(settings, TABLE, unneeded_files(settings, TABLE, older_than=0 * DAY), [lost])
    assert (swept.removed, swept.kept, swept.held_back_by) == (0, 3, ["the consumer lost"])


def test_commits_go_below_the_checkpoint_that_is_old_and_below_every_consumer(settings):
    for number in range(12):
        append(settings, number)
        if number in (3, 6, 9):
            DeltaTable(settings.location(TABLE)).create_checkpoint()
    folder = Path(settings.location(TABLE)) / "_delta_log"
    for version in range(12):
        (folder / f".{version:020d}.json.crc").write_bytes(b"of Hadoop")
    month_ago = (now() - 31 * DAY).timestamp()
    for path in folder.iterdir():
        if path.name < f"{8:020d}":
            os.utime(path, (month_ago, month_ago))
    limit = now() - 30 * DAY

    behind = Need("the stream s", TABLE, Position(5, -1))
    swept = remove_old_commits(settings, TABLE, [behind], before=limit)
    assert log_files(settings)[0] == f"{3:020d}.checkpoint.parquet"
    assert (swept.held_back_by, swept.kept_from_version, swept.removed, swept.kept) == (["the stream s"], 5, 3, 3)
    assert sorted(path.name for path in folder.glob(".*"))[0] == f".{3:020d}.json.crc"
    assert [file.version for file in added_files(settings, TABLE, Position(5, -1))] == list(range(5, 12))

    swept = remove_old_commits(settings, TABLE, [Need("the stream s", TABLE, Position(12, -1))], before=limit)
    assert log_files(settings)[0] == f"{6:020d}.checkpoint.parquet" and swept.held_back_by == []
    assert sorted(DeltaTable(settings.location(TABLE)).to_pyarrow_table()["n"].to_pylist()) == list(range(12))
    assert DeltaTable(settings.location(TABLE), version=6).to_pyarrow_table().num_rows == 7
    append(settings, 12)
    assert remove_old_commits(settings, TABLE, [], before=limit).removed == 0, "the younger ones stay, checkpoint or not"


def test_our_tables_leave_their_log_to_maintenance(settings):
    append(settings, 1)
    write(settings, BOOKS, books_row())
    assert cleans_up_by_itself(settings, TABLE) and not cleans_up_by_itself(settings, BOOKS)


def test_old_epochs_and_replaced_checkpoints_go_and_those_in_use_stay(settings):
    for _ in range(3):
        lease = Lease(settings, SILVER, "run")
        lease.take()
        lease.release()
    folder = Path(settings.lake_root) / "_leases" / str(SILVER)
    (folder / "00000003").rename(folder / f"{3 * KEPT_EPOCHS + 2:08d}")
    assert remove_old_epochs(settings) == 2
    Lease(settings, SILVER, "next").take()
    assert len(list(folder.iterdir())) == 2

    table = StreamedTable(settings)
    table.batch(0)
    newer = table.folder.parent / "v2"
    table.folder.rename(newer)
    (newer.parent / "v1" / "offsets").mkdir(parents=True)
    assert remove_old_generations(settings, before=now() - DAY) == [], "it was replaced just now"
    assert remove_old_generations(settings, before=now() + DAY) == ["silver.x_events/v1"]
    assert newer.exists() and not (newer.parent / "v1").exists()
    assert remove_old_generations(settings, before=now() + DAY) == []


def test_old_reports_go_and_other_peoples_files_stay(settings, tmp_path):
    settings = settings.model_copy(update={"reports": tmp_path / "reports"})
    for name in ("old", "new"):
        folder = tmp_path / "reports" / "cloudtrail" / name
        folder.mkdir(parents=True)
        summary = '{"pipeline":"cloudtrail","run_id":"r","folder":"cloudtrail/new","ran_at":"2024-05-02T10:00:00Z","state":"pass",'
        (folder / "summary.json").write_text(summary + '"word":"Passed","sentence":"s","equation":"e"}')
        (folder / "index.html").write_text("page")
    old = tmp_path / "reports" / "cloudtrail" / "old"
    (old / "notes.txt").write_text("mine")
    os.utime(old / "summary.json", (1, 1))
    assert remove_old_reports(settings, before=now() - DAY) == 1
    assert [path.name for path in old.iterdir()] == ["notes.txt"]
    assert (tmp_path / "reports" / "cloudtrail" / "new" / "index.html").exists()


def test_ops_tables_are_joined_and_the_ledgers_files_never_are(settings):
    """One ledger file is one bounded batch of bronze. The rows of all tables stay; a second maintenance has nothing to do."""
    for number in range(FEW_OPS_FILES + 2):
        write(settings, FILES, file_row(settings, f"{number}.gz"))
        write(settings, BOOKS, books_row(batch_id=f"v1-{number:08d}"))
    before = {table: sorted(map(str, Ops(settings).read(table).to_pylist())) for table in (FILES, BOOKS)}
    run = Run(settings, load_pipeline("cloudtrail"), "maintenance", lambda: now() + 8 * DAY)
    done = {row["table"]: row for row in maintain(run)["tables"]}
    assert (done[str(BOOKS)]["files_before"], done[str(BOOKS)]["files_after"]) == (22, 1)
    assert done[str(BOOKS)]["files_removed"] == 22
    assert done[str(FILES)]["files_after"] == done[str(FILES)]["files_before"] == 22
    assert {table: sorted(map(str, Ops(settings).read(table).to_pylist())) for table in before} == before
    assert not run.has_session, "nothing of this needs a JVM"
    rows = Ops(settings).read(MAINTENANCE).to_pylist()
    assert {(row["table"], row["action"]) for row in rows} == {(str(BOOKS), "compact"), (str(BOOKS), "vacuum"), ("", "all")}
    assert set(rows[0]) == set(SCHEMAS[MAINTENANCE].names)
    again = maintain(run)
    assert [row["sentence"] for row in again["tables"] if not row["sentence"].endswith("nothing to do.")] == []


def test_the_command_runs_the_job_and_prints_what_it_did(settings):
    write(settings, BOOKS, books_row())
    code = subprocess.run([sys.executable, "-m", "spark_jobs.cli.main", "maintain", "--json"], env=os.environ | environment(settings),
                          capture_output=True, text=True)  # fmt: skip
    assert code.returncode == 0, code.stderr
    result = json.loads(code.stdout)
    assert [row["sentence"] for row in result["tables"]] == ["_ops.books: nothing to do."]
    assert result["sentence"] == "1 tables cared for: nothing to do."


def test_killed_at_any_step_and_run_again_it_ends_the_same(settings):
    """Joining, removing, writing down: after each kill nothing is lost, and the last one finds what is left to do."""
    for number in range(FEW_OPS_FILES + 2):
        write(settings, BOOKS, books_row(batch_id=f"v1-{number:08d}"))
    before = sorted(map(str, Ops(settings).read(BOOKS).to_pylist()))
    strays = [Path(settings.location(BOOKS)) / f"part-stray-{n}.parquet" for n in range(4)]
    for stray in strays:
        stray.write_bytes(b"x")
        os.utime(stray, (1, 1))
    job = [sys.executable, "-m", "spark_jobs.jobs.maintain", "--pipeline", "cloudtrail", "--run-id", "maintenance"]
    removing = "fsspec.implementations.local:LocalFileSystem.rm_file"
    for point in (
        KillPoint("before the files are joined", "spark_jobs.jobs.compaction:_until_it_passes"),
        KillPoint("after they were joined", "spark_jobs.jobs.compaction:_until_it_passes", "after"),
        KillPoint("between two removals", removing, call=2),
        KillPoint("after the removals, before they are written down", "spark_jobs.io.ops:Ops.append"),
    ):
        killed = subprocess.run(command(point, job), env=os.environ | environment(settings), capture_output=True, text=True)
        assert killed.returncode == -signal.SIGKILL, f"{point.name}: {killed.stderr}"
        assert sorted(map(str, Ops(settings).read(BOOKS).to_pylist())) == before, point.name
    again = subprocess.run(job, env=os.environ | environment(settings), capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert not any(stray.exists() for stray in strays)
    assert len(DeltaTable(settings.location(BOOKS)).file_uris()) == 1
    assert [row["action"] for row in Ops(settings).read(MAINTENANCE).to_pylist()] == ["all"]
