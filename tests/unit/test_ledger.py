"""The file ledger: every object once per version, whatever the order of listings, and nothing silently left out."""

import os
import threading
from datetime import UTC, date, datetime, timedelta

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from spark_jobs.io import ledger, ledger_memory
from spark_jobs.io.delta_log import START, added_files
from spark_jobs.io.landing import LandingFolder
from spark_jobs.io.ledger import admit, discover, readmit
from spark_jobs.io.ledger_files import chunks, ledger_rows
from spark_jobs.io.ledger_memory import LedgerMemory
from spark_jobs.io.ops import Ops
from spark_jobs.spec.errors import ConfigurationFault, UnknownName
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import FILE_OUTCOMES, FILES

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
PIPELINE = load_pipeline("cloudtrail")


@pytest.fixture
def landing(tmp_path):
    (tmp_path / "landing").mkdir()
    return tmp_path / "landing"


@pytest.fixture
def settings(tmp_path, landing):
    return load_settings(lake=str(tmp_path / "lake"), landing=str(landing), batch_files=3, recent_dates=2)


def put(landing, name, content=b"x"):
    path = landing / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def rows(settings):
    return Ops(settings).read(FILES).to_pylist()


def test_enters_each_object_once_however_often_it_is_listed(settings, landing):
    put(landing, "a.json.gz")
    assert discover(settings, PIPELINE, "r1", NOW).new == 1
    assert discover(settings, PIPELINE, "r2", NOW, sweep=True).new == 0
    assert [row["run_id"] for row in rows(settings)] == ["r1"]


def test_a_rewritten_file_is_a_new_version(settings, landing):
    path = put(landing, "a.json.gz", b"one")
    discover(settings, PIPELINE, "r1", NOW)
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 5))
    assert discover(settings, PIPELINE, "r2", NOW, sweep=True).new == 1
    assert len({row["file_id"] for row in rows(settings)}) == 2


def test_takes_old_modification_times_and_odd_names(settings, landing):
    for name in ("_under.json.gz", ".dot.json.gz", "sp ace é.json.gz", "per%20cent.json.gz"):
        os.utime(put(landing, name), (0, 0))
    assert discover(settings, PIPELINE, "r", NOW).new == 4


def test_records_why_an_object_is_not_read(settings, landing):
    put(landing, "AWSLogs/1/CloudTrail-Digest/eu/2023/07/10/d.json.gz")
    put(landing, "half.json.gz.part")
    found = discover(settings, PIPELINE, "r", NOW)
    assert (found.new, found.ignored) == (0, 2)
    assert all(row["state"] == "ignored" and row["reason"] for row in rows(settings))


def test_the_hourly_look_lists_only_the_newest_dates_of_each_account_and_region(settings, landing):
    days = ["2023/12/31", "2024/01/01", "2024/01/02"]
    for account in ("111", "222"):
        for day in days:
            put(landing, f"AWSLogs/{account}/CloudTrail/eu/{day}/f.json.gz")
    put(landing, "AWSLogs/111/CloudTrail/us/2020/01/01/f.json.gz")
    found = discover(settings, PIPELINE, "r", NOW, sweep=False)
    assert (found.swept, found.listed) == (False, 5)
    assert {row["prefix_date"] for row in rows(settings)} == {date(2024, 1, 1), date(2024, 1, 2), date(2020, 1, 1)}


def test_a_sweep_brings_what_the_hourly_look_does_not_see(settings, landing):
    put(landing, "AWSLogs/1/CloudTrail/eu/2024/01/02/f.json.gz")
    assert discover(settings, PIPELINE, "r1", NOW).swept
    for day in ("2024/01/03", "2024/01/04", "2023/01/01"):
        put(landing, f"AWSLogs/1/CloudTrail/eu/{day}/late.json.gz")
    hourly = discover(settings, PIPELINE, "r2", NOW + timedelta(hours=1))
    assert (hourly.swept, hourly.new) == (False, 2)
    daily = discover(settings, PIPELINE, "r3", NOW + timedelta(hours=25))
    assert (daily.swept, daily.new) == (True, 1)


def test_a_look_at_some_dates_lists_nothing_else_and_counts_as_no_sweep(settings, landing):
    for day in range(1, 7):
        put(landing, f"A/CloudTrail/r/2024/05/{day:02d}/a.json.gz")
    found = discover(settings, PIPELINE, "r1", NOW, only=(date(2024, 5, 2), date(2024, 5, 3)))
    assert (found.listed, found.new, found.swept) == (2, 2, False)
    assert sorted(row["prefix_date"].day for row in rows(settings)) == [2, 3]
    assert discover(settings, PIPELINE, "r2", NOW).swept, "the daily sweep is still due"


def test_a_sweep_enters_the_newest_dates_first(settings, landing):
    """Else months of history would stand in front of what has landed in the last hour."""
    for day in ("2023/05/01", "2024/01/02", "2023/06/01", "2024/01/01"):
        put(landing, f"AWSLogs/1/CloudTrail/eu/{day}/f.json.gz")
    put(landing, "undated.json.gz")
    discover(settings, PIPELINE, "r", NOW, sweep=True)
    first, second = list(added_files(settings, FILES, START))
    assert (first.rows, second.rows) == (3, 2)
    read = [pq.read_table(f"{settings.location(FILES)}/{file.path}")["prefix_date"].to_pylist() for file in (first, second)]
    assert read == [[None, date(2024, 1, 2), date(2024, 1, 1)], [date(2023, 6, 1), date(2023, 5, 1)]]


def test_of_the_dated_folders_only_those_asked_for_are_listed(settings, landing):
    for account in ("111122223333", "o-abc/222233334444"):
        for region in ("eu-west-1", "us-east-1"):
            for day in ("2023/12/31", "2024/01/01", "2024/02/01"):
                put(landing, f"AWSLogs/{account}/CloudTrail/{region}/{day}/f.json.gz")
    put(landing, "AWSLogs/111122223333/CloudTrail/eu-west-1/2024/01/01/deep/er.json.gz")
    put(landing, "undated.json.gz")
    folder = LandingFolder(str(landing))
    listed_folders = []
    real = folder._listing
    folder._listing = lambda path: listed_folders.append(path) or real(path)
    found = list(folder.dated(date(2024, 1, 1), date(2024, 1, 31)))
    assert len(found) == 5 and {one.prefix_date for one in found} == {date(2024, 1, 1)}
    assert not any(path.endswith(("/12/31", "/2023/12", "/02/01")) for path in listed_folders)
    assert len(list(folder.dated(date(2023, 12, 31), date(2024, 2, 1), accounts=["222233334444"]))) == 6
    assert len(list(folder.dated(date(2023, 12, 31), date(2024, 2, 1), accounts=["222233334444"], regions=["us-east-1"]))) == 3
    assert not list(folder.dated(date(2024, 1, 1), date(2024, 2, 1), accounts=["999999999999"]))


def test_admitted_history_is_entered_once_and_says_who_brought_it(settings, landing):
    put(landing, "AWSLogs/1/CloudTrail/eu/2024/01/02/live.json.gz")
    discover(settings, PIPELINE, "live", NOW, sweep=False)
    for name in ("a", "b"):
        put(landing, f"AWSLogs/1/CloudTrail/eu/2024/01/02/{name}.json.gz")
    objects = list(LandingFolder(str(landing)).dated(date(2024, 1, 1), date(2024, 1, 31)))
    assert len(objects) == 3
    assert len(admit(settings, PIPELINE, objects, "r", NOW, "backfill bf_1")) == 2
    assert admit(settings, PIPELINE, objects, "r", NOW, "backfill bf_2") == []
    assert sorted(row["admitted"] for row in rows(settings)) == ["backfill bf_1", "backfill bf_1", "live"]


def test_two_listings_at_once_enter_no_object_twice(settings, landing):
    for n in range(20):
        put(landing, f"{n}.json.gz")
    takers = [threading.Thread(target=discover, args=(settings, PIPELINE, f"r{n}", NOW)) for n in range(5)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()
    assert len(rows(settings)) == 20
    assert len({row["file_id"] for row in rows(settings)}) == 20


def test_a_ledger_file_names_a_bounded_number_of_files_and_bytes(settings, landing):
    for n in range(8):
        put(landing, f"{n}.json.gz")
    discover(settings, PIPELINE, "r", NOW)
    assert [added.rows for added in added_files(settings, FILES, START)] == [3, 3, 2]
    pieces = list(chunks([{"size": size, "state": "listed"} for size in (5, 5, 9, 1, 30)], 10, 10))
    assert [[row["size"] for row in piece] for piece in pieces] == [[5, 5], [9, 1], [30]]


def test_a_failed_file_that_may_heal_is_read_again_with_back_off(settings, landing):
    put(landing, "a.json.gz")
    discover(settings, PIPELINE, "r1", NOW)
    row = rows(settings)[0]

    def failed(attempt, at):
        outcome = {
            "pipeline": "cloudtrail",
            "file_id": row["file_id"],
            "path": row["path"],
            "attempt": attempt,
            "outcome": "failed",
            "heals": True,
        }
        Ops(settings).append(FILE_OUTCOMES, [outcome | {"rule": "truncated_gzip", "read_at": at}])

    failed(1, NOW)
    assert discover(settings, PIPELINE, "soon", NOW + timedelta(minutes=5)).readmitted == 0
    assert discover(settings, PIPELINE, "later", NOW + timedelta(minutes=11)).readmitted == 1
    assert discover(settings, PIPELINE, "again", NOW + timedelta(minutes=12)).readmitted == 0
    failed(2, NOW + timedelta(minutes=12))
    assert discover(settings, PIPELINE, "too soon", NOW + timedelta(minutes=30)).readmitted == 0
    assert discover(settings, PIPELINE, "due", NOW + timedelta(minutes=33)).readmitted == 1
    assert sorted(row["attempt"] for row in rows(settings)) == [1, 2, 3]


def test_a_failure_that_cannot_heal_is_left_to_a_person(settings, landing):
    put(landing, "a.json.gz")
    discover(settings, PIPELINE, "r1", NOW)
    row = rows(settings)[0]
    outcome = {"pipeline": "cloudtrail", "file_id": row["file_id"], "path": row["path"], "attempt": 1, "outcome": "failed", "heals": False}
    Ops(settings).append(FILE_OUTCOMES, [outcome | {"read_at": NOW}])
    assert discover(settings, PIPELINE, "later", NOW + timedelta(days=1)).readmitted == 0
    assert readmit(settings, "cloudtrail", [row["file_id"]], "by hand") == 1
    assert readmit(settings, "cloudtrail", [row["file_id"]], "by hand") == 1  # asked once more, after the next reading as well
    with pytest.raises(UnknownName):
        readmit(settings, "cloudtrail", ["0" * 32], "by hand")


def test_a_missing_landing_folder_is_one_sentence(settings, landing):
    landing.rmdir()
    with pytest.raises(ConfigurationFault, match="does not exist"):
        discover(settings, PIPELINE, "r", NOW)


def test_ledger_keeps_a_checkpoint_so_that_opening_stays_quick(settings, landing):
    for n in range(25):
        put(landing, f"{n}.json.gz")
        discover(settings, PIPELINE, f"r{n}", NOW, sweep=False)
    log = os.listdir(settings.location(FILES) + "/_delta_log")
    assert any(name.endswith(".checkpoint.parquet") for name in log)


def test_the_hourly_look_reads_only_ledger_files_of_the_listed_dates(settings, landing, monkeypatch):
    for day in range(1, 10):
        put(landing, f"AWSLogs/1/CloudTrail/eu/2024/01/0{day}/f.json.gz")
        discover(settings, PIPELINE, f"r{day}", NOW, sweep=False)
    seen = []
    real = ledger._known
    monkeypatch.setattr(ledger, "_known", lambda table, dates: seen.append((table, dates)) or real(table, dates))
    discover(settings, PIPELINE, "last", NOW, sweep=False)
    table, dates = seen[0]
    fragments = table.to_pyarrow_dataset().get_fragments(filter=pc.field("prefix_date").isin(list(dates)))
    assert len(list(fragments)) == 2


def test_a_driver_that_looks_again_and_again_enters_each_version_once_whoever_else_enters(settings, landing, monkeypatch):
    memory, whole = LedgerMemory(), []
    monkeypatch.setattr(ledger_memory, "ledger_rows", lambda *asked: whole.append(asked[1]) or ledger_rows(*asked))

    def look():
        return discover(settings, PIPELINE, "stream", NOW, sweep=False, memory=memory).new

    put(landing, "a.json.gz")
    put(landing, "b.json.gz")
    assert [look(), look()] == [2, 0]
    put(landing, "c.json.gz")
    discover(settings, PIPELINE, "somebody else", NOW, sweep=False)
    put(landing, "d.json.gz")
    assert [look(), look()] == [1, 0]
    put(landing, "b.json.gz", b"changed")
    assert [look(), look()] == [1, 0]
    put(landing, "AWSLogs/1/CloudTrail/r/2026/01/05/e.json.gz")
    assert [look(), look()] == [1, 0]
    assert len(rows(settings)) == 6
    assert whole == [{None}, {date(2026, 1, 5)}]  # one reading of what was there before, and only of dates that are new
