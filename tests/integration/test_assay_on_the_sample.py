"""The `assay` command, the gate command and the report over what the real stack made of the real sample."""

import gzip
import json

import pytest

from spark_jobs.cli.query import examples
from spark_jobs.io.ledger import discover
from spark_jobs.jobs.gate import gate
from spark_jobs.jobs.run import Run
from spark_jobs.report.trace import trace
from spark_jobs.report.views import LakeViews
from spark_jobs.report.write import write_report
from tests.builders.assay_command import assay, assay_json
from tests.builders.corpus import FOLDER as LANDED
from tests.builders.corpus import good_file
from tests.builders.events import event
from tests.builders.page import Page
from tests.builders.stack import Stack

FIRST, SECOND = "scheduled__2023-07-10T12:10:00+00:00", "scheduled__2023-07-10T13:10:00+00:00"
FOLDER = "AWSLogs/123837392027/CloudTrail/us-east-1/2023/07/10"


@pytest.fixture(scope="module")
def sample(tmp_path_factory, spark):
    """The sample in two runs; with the second one a file of re-delivered and bad records, and one that is cut off."""
    folder = tmp_path_factory.mktemp("sample")
    stack = Stack(folder, spark, reports=folder / "reports")
    stack.land_sample(lambda name: name.split("_")[3] <= "20230710T1205Z")
    run(stack, FIRST)
    stack.land_sample(lambda name: name.split("_")[3] > "20230710T1205Z")
    source = next(path for path in sorted(stack.landing.rglob("*T1215Z*.gz")))
    records = json.loads(gzip.decompress(source.read_bytes()))["Records"]
    bad = [
        records[0],
        records[1] | {"eventID": "late", "eventTime": "2099-01-01T00:00:00Z"},
        records[2] | {"eventTime": "24:00:00", "eventID": "odd"},
    ]
    packed = gzip.compress(json.dumps({"Records": bad}).encode())
    stack.land(f"{FOLDER}/123837392027_CloudTrail_us-east-1_20230710T1300Z_bad.json.gz", packed)
    stack.land(f"{FOLDER}/123837392027_CloudTrail_us-east-1_20230710T1301Z_cut.json.gz", packed[: len(packed) // 2])
    run(stack, SECOND)
    return stack


def run(stack, run_id):
    discover(stack.settings, stack.pipeline, run_id, stack.clock())
    assert stack.run(run_id=run_id) is None


@pytest.mark.parametrize("layer", ["bronze", "silver", "gold"])
def test_the_gate_of_every_layer_passes_on_the_sample(sample, layer):
    found = gate(Run(sample.settings, sample.pipeline, FIRST), layer)
    assert found["outcome"] == "pass"
    assert found["tables"] == sorted(map(str, sample.pipeline.tables(layer)))
    assert gate(Run(sample.settings, sample.pipeline, "another run"), layer)["outcome"] == "none"


def test_the_books_of_the_sample_balance_and_the_tables_hold_what_they_say(sample):
    found = assay_json(sample.settings, "books", "--count")
    totals = {row["table"]: row for row in found["totals"]}
    bronze, silver = totals["bronze.cloudtrail_records"], totals["silver.cloudtrail_events"]
    assert (bronze["read"], bronze["files_ok"], bronze["files_failed"]) == (2095, 37, 1)
    assert (silver["read"], silver["written"], silver["quarantined"], silver["duplicate"]) == (2095, 2092, 2, 1)
    assert len(found["counted"]) == 7
    assert all(row["is_balanced"] for row in found["counted"])


def test_status_says_that_every_layer_has_consumed_its_source(sample):
    tables = assay_json(sample.settings, "status")["pipelines"][0]["tables"]
    assert {row["table"]: row["rows"] for row in tables}["silver.cloudtrail_events"] == 2092
    hourly = [row for row in tables if row["cadence"] == "hourly"]
    assert all(not any(row["lag"].values()) for row in hourly), [row["lag"] for row in hourly]
    assert [row["gate"]["outcome"] for row in hourly] == ["pass", "warn", "pass", "pass", "pass"], "a re-delivery had other content"
    said = " ".join(assay(sample.settings, "status").stdout.split())
    assert "Every layer has consumed its source. The daily run brings up gold.cloudtrail_account_activity_1d, gold.cloudtrail_first" in said


def test_every_record_of_every_file_is_found_where_it_ends(sample):
    views = LakeViews(sample.settings)
    rids = [row["_rid"] for row in views.rows("SELECT _rid FROM bronze.cloudtrail_records ORDER BY _rid")]
    special = views.rows(
        "SELECT _rid FROM silver.cloudtrail_events_quarantine UNION ALL SELECT _rid FROM silver.cloudtrail_events_duplicates"
    )
    checked = rids[::150] + [row["_rid"] for row in special]
    ends = [trace(views, sample.pipeline, rid).ends for rid in checked]
    assert set(ends[: len(rids[::150])]) <= {"published", "quarantined", "duplicate"}
    assert sorted(ends[len(rids[::150]) :]) == ["duplicate", "quarantined", "quarantined"]


def test_a_denied_event_is_followed_into_its_three_sliding_windows(sample):
    denied = assay_json(sample.settings, "query", "SELECT _rid FROM silver.cloudtrail_events WHERE error_code = 'AccessDenied' LIMIT 1")[0][
        "_rid"
    ]
    steps = assay_json(sample.settings, "where", denied)[0]["steps"]
    assert [step["state"] for step in steps if step["table"] == "gold.cloudtrail_denied_15m"] == ["counted"] * 3


def test_the_report_of_the_second_run_shows_the_increment(sample):
    done = write_report(sample.settings, sample.pipeline, SECOND, sample.clock())
    page = Page(done.page.read_text())
    assert page.banner == "warn"
    assert "1,295 read = 1,292 published + 2 quarantined + 1 duplicate + 0 held" in page.text
    assert "1 file could not be read" in page.text
    facts = json.loads(done.page.with_name("report.json").read_text())
    assert {rule["rule"] for table in facts["tables"] for rule in table["quarantine"]} == {"event_time_in_future", "event_time_unparseable"}
    files = facts["files"]["rows"]
    assert facts["files"]["counts"] == {"failed": 1, "ok": 30}
    assert sum(row["records"] for row in files if row["state"] == "ok") == 1295
    assert all(row["records"] == row["silver"] + row["duplicates"] + row["silver_quarantined"] for row in files if row["state"] == "ok")
    assert [one["table"] for one in facts["busiest"]] == [str(table) for table in sample.pipeline.gold_tables_of("hourly")]


# What the sample is known to hold: an attack simulation in one account (stratus-red-team).
ANSWERS = {
    "root_usage": lambda rows: rows == [],
    "logins_without_mfa": lambda rows: [row["source_ip_address"] for row in rows] == ["192.168.10.20"],
    "denied_bursts": lambda rows: [row["denied_in_15_minutes"] for row in rows] == [29, 9],
    "blinded_audit": lambda rows: (
        {row["event_name"] for row in rows}
        == {"DeleteTrail", "PutEventSelectors", "LeaveOrganization", "PutBucketLifecycle", "DeleteLogGroup"}
    ),
    "new_credentials": lambda rows: sum(row["event_name"] == "CreateAccessKey" for row in rows) == 2,
    "shared_outside": lambda rows: (
        {row["event_name"] for row in rows}
        >= {"ModifySnapshotAttribute", "ModifyImageAttribute", "ModifyDBSnapshotAttribute", "AddPermission20150331v2"}
    ),
    "secrets_read": lambda rows: max(row["reads"] for row in rows) == 42,
    "first_seen_principals": lambda rows: any(row["first_action"] == "ConsoleLogin" for row in rows),
    "calls_by_account_and_service": lambda rows: sum(row["calls"] for row in rows) == 2092,
    "calls_by_principal": lambda rows: sum(row["calls"] for row in rows) == 2092 and rows[0]["principal_arn"].endswith("user/bert-jan"),
    "resources_created": lambda rows: any(row["action"] == "RunInstances" for row in rows),
    "throttled_callers": lambda rows: sum(row["throttled"] for row in rows) == 74,
}


def test_every_example_has_its_known_answer():
    assert set(examples()) == set(ANSWERS)
    assert {example.subject for example in examples().values()} == {"security", "cost"}


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_an_example_question_finds_what_the_sample_holds(sample, name):
    rows = assay_json(sample.settings, "query", "--example", name, "--limit", "0")
    assert ANSWERS[name](rows), rows
    assert examples()[name].title in assay(sample.settings, "query", "--example", name).stdout


def test_a_file_that_came_back_is_read_after_a_retry(tmp_path, spark):
    stack = Stack(tmp_path, spark)
    path, away = stack.land(f"{LANDED}/gone.json.gz", good_file(1, 2)), tmp_path / "away"
    discover(stack.settings, stack.pipeline, "first", stack.clock())
    path.rename(away)
    stack.run(run_id="first")
    [failed] = assay_json(stack.settings, "files")["files"]
    assert (failed["state"], failed["attempt"]) == ("failed", 1)
    assert assay_json(stack.settings, "where", f"{failed['file_id']}:0")[0]["ends"] == "failed"

    away.rename(path)  # the same version of the same file: its time is kept
    assert assay_json(stack.settings, "files", "retry", "--all-failed")["entered"] == 1
    run(stack, "second")
    [read] = assay_json(stack.settings, "files")["files"]
    assert (read["state"], read["attempt"], read["records"]) == ("ok", 2, 2)
    assert assay_json(stack.settings, "where", f"{failed['file_id']}:0")[0]["ends"] == "published"
    assert assay_json(stack.settings, "files", "retry", "--all-failed")["entered"] == 0


def test_a_held_record_is_followed_until_a_person_releases_it(tmp_path, spark):
    stack = Stack(tmp_path, spark, reports=tmp_path / "reports")
    stack.land(f"{LANDED}/odd.json.gz", good_file(1, 2, recipientAccountId="not-an-account"))
    run(stack, "first")
    key, table, batch = event(1)["eventID"], "silver.cloudtrail_events", "v1-00000000"
    assert assay_json(stack.settings, "where", key)[0]["ends"] == "held"
    assert assay_json(stack.settings, "status")["pipelines"][0]["tables"][1]["waiting"] == [f"{batch} held"]
    page = Page(write_report(stack.settings, stack.pipeline, "first", stack.clock()).page.read_text())
    assert page.banner == "hold"
    assert "2 read = 0 published + 0 quarantined + 0 duplicate + 2 held" in page.text

    assay(stack.settings, "held", "release", table, batch, "--who", "ann")
    run(stack, "second")
    assert [way["ends"] for way in assay_json(stack.settings, "where", key)] == ["published"]
    total = {row["table"]: row["equation"] for row in assay_json(stack.settings, "books", "--count")["totals"]}
    assert total[table] == "2 read = 2 written + 0 quarantined + 0 duplicate + 0 held"
    assert assay_json(stack.settings, "held", "list") == []
    page = Page(write_report(stack.settings, stack.pipeline, "second", stack.clock()).page.read_text())
    assert page.banner == "warn"
    assert "2 read = 2 written" in page.text
    assert "was released by a person" in page.text
