"""The plan of a backfill: what it names is what would be done, it is stored whole, and what cannot be planned is one sentence."""

import json
from datetime import date, timedelta

import pytest

from spark_jobs.io.backfill_store import BackfillStore
from spark_jobs.io.ledger import discover
from spark_jobs.io.ops import Ops
from spark_jobs.io.throughput import throughput
from spark_jobs.jobs.backfill_page import plan_page, plan_sentence
from spark_jobs.jobs.backfill_plan import plan
from spark_jobs.jobs.run import Run
from spark_jobs.spec.backfill import BackfillRequest
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import RUNS
from tests.builders.ops_rows import NOW, SILVER, file_id, record, small_lake, write

PIPELINE = load_pipeline("cloudtrail")
ONE, TWO = "111122223333", "222233334444"


@pytest.fixture
def run(tmp_path):
    (tmp_path / "landing").mkdir()
    return Run(load_settings(home=tmp_path, lake=str(tmp_path / "lake"), landing=str(tmp_path / "landing")), PIPELINE, "r1")


def put(root, account, region, day, name="f.json.gz", size=100):
    path = root / f"AWSLogs/{account}/CloudTrail/{region}/{day}/{name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def history(root):
    """30 days of May, two accounts, two regions, one file of 100 bytes each."""
    for day in range(1, 31):
        for account in (ONE, TWO):
            for region in ("eu-west-1", "us-east-1"):
                put(root, account, region, f"2024/05/{day:02}")


def asked(first="2024-05-01", last="2024-05-30", what="load", **more):
    return BackfillRequest.parse(what, first, last, **more)


def test_a_load_is_the_files_of_its_range_that_the_ledger_has_not(run, tmp_path):
    history(tmp_path / "landing")
    put(tmp_path / "landing", ONE, "eu-west-1", "2024/05/10", "note.txt")
    discover(run.settings, PIPELINE, "live", NOW, sweep=False)  # the newest three dates: 28, 29 and 30
    row = plan(run, asked("2024-05-10", "2024-05-29"), "ann")
    assert (row["files"], row["bytes"], row["overlap_files"], row["chunks"]) == (18 * 4, 7200, 8, 1)
    details = json.loads(row["plan"])
    days = {day["date"]: (day["files"], day["known_files"]) for day in details["days"]}
    assert days["2024-05-10"] == (4, 0) and days["2024-05-28"] == (0, 4)
    assert days["2024-05-09"] == (0, 0), "its last minutes may be logged after midnight"
    assert details["windows"]["gold.cloudtrail_activity_1h"] == 19 * 24
    assert details["ignored"] == 1
    sentence, page = plan_sentence(row), plan_page(row)
    assert "72 files" in sentence and "8 files of the range are in the ledger already" in sentence
    assert "not measured here yet" in sentence
    assert "| 2024-05-10 | 4 | 400 |" in page


def test_only_the_accounts_and_regions_asked_for(run, tmp_path):
    history(tmp_path / "landing")
    row = plan(run, asked(accounts=ONE, regions="eu-west-1, us-east-1"))
    assert row["files"] == 60
    (chunk,) = BackfillStore(run.settings).chunks(row["backfill_id"])
    assert all(f"/{ONE}/" in name for name, *_ in json.loads(chunk["content"])["files"])


def test_chunks_are_bounded_in_the_order_asked_for_and_hold_each_file_once(run, tmp_path):
    history(tmp_path / "landing")
    row = plan(run, asked(chunk_files=50, is_newest_first=True))
    chunks = BackfillStore(run.settings).chunks(row["backfill_id"])
    assert [chunk["files"] for chunk in chunks] == [50, 50, 20]
    assert [chunk["state"] for chunk in chunks] == ["planned"] * 3
    names = [name for chunk in chunks for name, *_ in json.loads(chunk["content"])["files"]]
    assert len(set(names)) == 120
    days = [name.split("/f.json")[0][-10:] for name in names]
    assert days == sorted(days, reverse=True)
    assert (chunks[0]["last_date"], chunks[2]["first_date"]) == (date(2024, 5, 30), date(2024, 5, 1))


def test_history_that_lies_elsewhere(run, tmp_path):
    history(tmp_path / "archive")
    row = plan(run, asked(source=str(tmp_path / "archive")))
    assert (row["files"], json.loads(row["plan"])["root"]) == (120, str(tmp_path / "archive"))


def test_a_run_that_is_tried_again_finds_its_plan_and_cannot_plan_two_things(run, tmp_path):
    history(tmp_path / "landing")
    first = plan(run, asked())
    put(tmp_path / "landing", ONE, "eu-west-1", "2024/05/01", "later.json.gz")
    assert plan(run, asked()) == first
    with pytest.raises(ConfigurationFault, match="has planned bf_"):
        plan(run, asked("2024-05-02"))
    assert len(BackfillStore(run.settings).chunks(first["backfill_id"])) == 1


def test_a_plan_killed_before_it_was_whole_is_made_again(run, tmp_path, monkeypatch):
    history(tmp_path / "landing")
    real = Ops.append

    def killed(ops, table, rows):
        if table.name == "backfills":
            raise KeyboardInterrupt
        real(ops, table, rows)

    monkeypatch.setattr(Ops, "append", killed)
    with pytest.raises(KeyboardInterrupt):
        plan(run, asked(chunk_files=50))
    monkeypatch.undo()
    row = plan(run, asked(chunk_files=40))
    assert [chunk["files"] for chunk in BackfillStore(run.settings).chunks(row["backfill_id"])] == [40, 40, 40]


def test_what_is_all_there_already_is_nothing_to_do(run, tmp_path):
    history(tmp_path / "landing")
    discover(run.settings, PIPELINE, "live", NOW, sweep=True)
    row = plan(run, asked())
    assert (row["files"], row["chunks"], row["overlap_files"]) == (0, 0, 120)
    assert "Nothing to do" in plan_sentence(row)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"first": "2024-05-31"}, "from 2024-05-31 is after to 2024-05-30"),
        ({"first": "31.5.2024"}, "is not a date"),
        ({"last": "2024-02-30"}, "is not a date"),
        ({"what": "reload"}, "is not a kind of backfill"),
        ({"accounts": "12345"}, "accounts are 12 digits"),
        ({"accounts": "../../etc"}, "accounts are 12 digits"),
        ({"regions": "mars"}, "regions read like eu-west-1"),
        ({"chunk_files": -1}, "is impossible"),
        ({"what": "replay", "source": "s3://x"}, "Leave it out"),
        ({"what": "recompute", "accounts": ONE}, "Leave both out"),
        ({"first": "2020-01-01", "last": "2020-01-31"}, "There is nothing to load"),
        ({"accounts": "999999999999"}, "There is nothing to load"),
        ({"source": "/no/such/folder"}, "does not exist. Give the folder"),
        ({"source": "nosuch://bucket/x"}, "cannot be listed"),
        ({"what": "replay"}, "There is nothing to replay"),
        ({"what": "recompute"}, "There is nothing to recompute"),
    ],
)
def test_what_cannot_be_planned_is_one_sentence(run, tmp_path, change, part):
    history(tmp_path / "landing")
    with pytest.raises(ConfigurationFault, match=part) as refused:
        plan(run, asked(**change))
    assert "\n" not in str(refused.value)
    assert not BackfillStore(run.settings).all()


def test_a_replay_is_the_files_that_bronze_has_read_and_a_recompute_the_days_of_silver(tmp_path):
    settings = small_lake(tmp_path)  # one file of 2024-05-01 read, one failed, one ignored, one not read yet
    replay = plan(Run(settings, PIPELINE, "r1"), asked(what="replay"))
    assert (replay["files"], replay["records"], replay["chunks"]) == (1, 4, 1)
    (chunk,) = BackfillStore(settings).chunks(replay["backfill_id"])
    assert json.loads(chunk["content"]) == {"file_ids": [file_id("a.gz")]}
    for run_id, what in (("r2", "replay"), ("r3", "recompute")):
        with pytest.raises(ConfigurationFault, match="nothing to"):
            plan(Run(settings, PIPELINE, run_id), asked("2024-04-01", "2024-04-30", what))


def test_the_prediction_rests_on_what_this_installation_took(run):
    def ran(size_mb, wall_s, cpu_s, is_small=False, **more):
        write(
            run.settings, RUNS,
            {"pipeline": "cloudtrail", "job": "run_layers", "bytes": int(size_mb * 1e6), "records": int(size_mb * 5000), "wall_s": wall_s,
             "cpu_s": cpu_s, "is_small": is_small, "layers": "bronze,silver,gold", "finished_at": NOW} | more,
        )  # fmt: skip

    shipped = throughput(run.settings, "cloudtrail")
    assert not shipped.is_measured and "shipped" in shipped.basis
    ran(40, 84.0, 140.0)  # one run, twice what the shipped figures say
    once = throughput(run.settings, "cloudtrail")
    assert once.is_measured
    assert once.predict([40_000_000]) == pytest.approx((84.0, 140.0), abs=0.1)
    assert once.predict([1_000_000])[0] > shipped.predict([1_000_000])[0] * 1.5, "a slow machine is slow for small runs too"
    for size, wall_s in ((20, 30.0), (60, 70.0), (100, 110.0), (80, 900.0)):  # 10 s and 1 s per MB; one run was disturbed
        ran(size, wall_s, wall_s * 2, finished_at=NOW + timedelta(hours=1))
    ran(5, 500.0, 500.0, job="continuous")
    ran(5, 500.0, 500.0, pipeline="another")
    ran(50, 1.0, 1.0, layers="bronze")  # a gate stopped it
    wall_s, cpu_s = throughput(run.settings, "cloudtrail").predict([50_000_000, 50_000_000])
    assert (wall_s, cpu_s) == pytest.approx((120, 240), rel=0.25)
    assert throughput(run.settings, "cloudtrail").records_per_byte == pytest.approx(0.005)


def test_a_recompute_is_cut_by_days_that_silver_has(tmp_path):
    settings = small_lake(tmp_path)  # two events on 2024-05-01
    for day in (3, *range(10, 20)):
        write(settings, SILVER, record(settings, "a.gz", day, event_date=date(2024, 5, day)))
    row = plan(Run(settings, PIPELINE, "r"), asked("2024-05-01", "2024-05-18", "recompute"))
    chunks = [json.loads(chunk["content"])["dates"] for chunk in BackfillStore(settings).chunks(row["backfill_id"])]
    assert [len(days) for days in chunks] == [7, 4]
    assert (chunks[0][:3], chunks[1][-1]) == (["2024-05-01", "2024-05-03", "2024-05-10"], "2024-05-18")
    assert (row["records"], "12 events" in plan_sentence(row)) == (12, True)
