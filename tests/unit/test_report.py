"""The quality report of a run: what it says, and that it says it whatever became of the run."""

import json
import subprocess
import sys

import pytest

from spark_jobs.report.render import report_page
from spark_jobs.report.views import LakeViews
from spark_jobs.report.write import MOST_RUNS, write_index, write_report
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.tables import BOOKS, FILE_OUTCOMES, FILES, VERDICTS
from tests.builders.ops_rows import (
    BRONZE,
    NOW,
    RUN,
    books_row,
    environment,
    failed_verdict,
    file_row,
    outcome_row,
    small_lake,
    small_settings,
    verdict_row,
    write,
)
from tests.builders.page import Page

CLOUDTRAIL = load_pipeline("cloudtrail")


def report(settings, run_id=RUN):
    """The page and the facts that were written for a run."""
    done = write_report(settings, CLOUDTRAIL, run_id, NOW)
    assert done is not None
    return Page(done.page.read_text()), json.loads(done.page.with_name("report.json").read_text())


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    settings = small_lake(tmp_path_factory.mktemp("lake"))
    write(settings, VERDICTS, verdict_row(BRONZE), verdict_row(), verdict_row(column="_rid"))
    return settings


def test_the_first_line_accounts_for_every_record(settings):
    page, facts = report(settings)
    assert "Every record accounted for 4 read = 2 published + 1 quarantined + 1 duplicate + 0 held" in page.text
    assert facts["summary"]["is_balanced"]


def test_the_flow_names_each_layer_with_its_number(settings):
    _, facts = report(settings)
    assert [(stage["stage"], stage["number"], stage["state"]) for stage in facts["flow"]] == [
        ("landing", 1, "warn"), ("bronze", 4, "pass"), ("silver", 2, "pass"), ("gold", 3, "pass"),
    ]  # fmt: skip
    assert facts["flow"][0]["notes"] == ["1 failed", "1 not logs"]


def test_each_table_shows_its_expectations_books_and_quarantine(settings):
    page, facts = report(settings)
    silver = next(table for table in facts["tables"] if table["table"] == "silver.cloudtrail_events")
    assert [check["column"] for check in silver["checks"]] == ["_rid", "event_id"]
    assert [(rule["rule"], rule["count"]) for rule in silver["quarantine"]] == [("event_time_in_future", 1)]
    assert silver["duplicates"] == {"count": 1, "conflicting": 0}
    assert "4 read = 2 written + 1 quarantined + 1 duplicate + 0 held balanced" in page.text
    assert "every event has event_id" in page.text


def test_quarantined_records_are_masked_in_page_and_json(settings):
    page, facts = report(settings)
    sample = next(table for table in facts["tables"] if table["quarantine"])["quarantine"][0]["samples"][0]
    assert sample["masked"] == '{"eventID":"xxxxx-0","userName":"xxxxxxx"}'
    assert "mallory" not in json.dumps(facts) + page.text


def test_each_file_says_what_became_of_its_records(settings):
    page, facts = report(settings)
    rows = {row["path"]: row for row in facts["files"]["rows"]}
    good = rows["a.gz"]
    assert (good["records"], good["silver"], good["duplicates"], good["silver_quarantined"]) == (4, 2, 1, 1)
    assert rows["b.gz"]["state"] == "failed"
    assert "The gzip stream has no end. It is read again by itself." in page.text
    assert "d.gz" not in rows, "another run listed it"


def test_two_versions_of_one_path_are_two_files(tmp_path):
    settings = small_lake(tmp_path)
    again = {"path": file_row(settings, "a.gz")["path"], "run_id": "again"}
    write(settings, FILES, file_row(settings, "e.gz", **again))
    write(settings, FILE_OUTCOMES, outcome_row(settings, "e.gz", **again))
    _, facts = report(settings, "again")
    assert [(row["path"], row["silver"]) for row in facts["files"]["rows"]] == [("a.gz", 0)]


def test_gold_shows_its_busiest_rows(settings):
    page, facts = report(settings)
    assert [one["table"] for one in facts["busiest"]] == ["gold.cloudtrail_activity_1h", "gold.cloudtrail_principal_activity_1h"]
    assert "ec2.amazonaws.com RunInstances" in page.text


def test_freshness_and_what_is_not_consumed_are_shown(settings):
    page, facts = report(settings)
    assert facts["freshness"] == {"newest_event_at": "2024-05-01T12:30:01+00:00", "age_minutes": 1290.0, "expected_minutes": 120.0}
    assert "not consumed yet: 1 file, 70 B" in page.text


def test_a_failed_file_is_a_note_and_not_a_failure(settings):
    page, facts = report(settings)
    assert (page.banner, facts["outcome"]["state"]) == ("warn", "warn")
    assert "1 file could not be read" in page.text


@pytest.mark.parametrize(("outcome", "word"), [("stop", "Stopped"), ("hold", "Held"), ("warn", "Passed with a note")])
def test_the_banner_says_what_the_gate_decided(tmp_path, outcome, word):
    settings = small_settings(tmp_path)
    failed = failed_verdict(outcome=outcome)
    write(settings, VERDICTS, failed, verdict_row(outcome=outcome, sentence=failed["sentence"]))
    if outcome != "stop":
        write(settings, BOOKS, books_row(outcome=outcome, written=0 if outcome == "hold" else 4, held=4 if outcome == "hold" else 0))
    page, facts = report(settings)
    assert page.banner == outcome
    assert f"{word} silver.cloudtrail_events v1-00000000: {outcome}. Not as expected: account_id is 12 digits." in page.text
    assert "12****89" in page.text
    assert ("section", "role", "alert") in page.attributes or outcome != "stop"
    assert [row["state"] for row in facts["waiting"]] == {"stop": ["stopped"], "hold": ["held"], "warn": []}[outcome]


def test_unbalanced_books_are_red_whatever_the_gate_said(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, VERDICTS, verdict_row())
    write(settings, BOOKS, books_row(read=4, written=3))
    page, facts = report(settings)
    assert page.banner == "unbalanced"
    assert not facts["summary"]["is_balanced"]
    assert "A record is unaccounted for 4 read ≠ 3 published" in page.text


def test_a_batch_that_a_person_released_is_said(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, VERDICTS, failed_verdict(outcome="stop"))
    write(settings, BOOKS, books_row(outcome="stop", decision="release"))
    page, _ = report(settings)
    assert page.banner == "warn"
    assert "v1-00000000 was released by a person" in page.text


def test_a_retried_task_shows_its_last_verdict(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, VERDICTS, failed_verdict(outcome="stop"), verdict_row(evaluated_at=NOW.replace(hour=11)))
    write(settings, BOOKS, books_row())
    page, facts = report(settings)
    assert page.banner == "pass"
    assert [check["column"] for check in facts["tables"][0]["checks"]] == ["event_id"]


def test_a_run_with_nothing_new_writes_nothing(tmp_path):
    settings = small_lake(tmp_path)
    assert write_report(settings, CLOUDTRAIL, "a run that did nothing", NOW) is None
    assert not settings.reports_root.exists()


def test_the_same_facts_give_the_same_page(settings):
    first = write_report(settings, CLOUDTRAIL, RUN, NOW)
    text = first.page.read_text()
    facts = json.loads(first.page.with_name("report.json").read_text())
    assert report_page(facts) == text
    assert write_report(settings, CLOUDTRAIL, RUN, NOW, LakeViews(settings)).page.read_text() == text


def test_many_files_are_bounded_and_the_rest_is_counted(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, FILES, *[file_row(settings, f"{number:04d}.gz", file_id=f"{number:032x}") for number in range(320)])
    page, facts = report(settings)
    assert (len(facts["files"]["rows"]), facts["files"]["omitted"], facts["files"]["counts"]) == (300, 20, {"not read": 320})
    assert "20 more are not shown here" in page.text


def test_many_batches_are_one_line_for_each_expectation(tmp_path):
    settings = small_settings(tmp_path)
    numbers = [f"v1-{number:08d}" for number in range(5)]
    write(settings, VERDICTS, *[verdict_row(batch_id=batch) for batch in numbers[1:]], failed_verdict(outcome="warn", batch_id=numbers[0]))
    write(settings, BOOKS, *[books_row(batch_id=batch) for batch in numbers])
    _, facts = report(settings)
    checks = facts["tables"][0]["checks"]
    assert [(check["success"], check["batches"], check["element_count"]) for check in checks] == [(False, 1, 4), (True, 4, 16)]
    assert checks[0]["failed_batches"] == [numbers[0]]


def test_the_index_lists_the_newest_run_first(tmp_path):
    settings = small_lake(tmp_path)
    write(settings, BOOKS, books_row(run_id="later", finished_at=NOW.replace(day=3)))
    write_report(settings, CLOUDTRAIL, "later", NOW)
    write_report(settings, CLOUDTRAIL, RUN, NOW.replace(hour=11))  # written last, and yet the older run
    page = Page((settings.reports_root / "index.html").read_text())
    links = [value for tag, name, value in page.attributes if (tag, name) == ("a", "href")]
    assert [link.split("/")[1][:9] for link in links] == ["later", "scheduled"]
    assert all((settings.reports_root / link).exists() for link in links)


def test_the_index_is_bounded(tmp_path):
    for number in range(MOST_RUNS + 3):
        folder = tmp_path / "cloudtrail" / f"run-{number}"
        folder.mkdir(parents=True)
        summary = {"pipeline": "cloudtrail", "run_id": str(number), "folder": f"cloudtrail/run-{number}", "ran_at": NOW.isoformat(),
                   "state": "pass", "word": "Passed", "sentence": "", "equation": ""}  # fmt: skip
        (folder / "summary.json").write_text(json.dumps(summary))
    write_index(tmp_path)
    assert "500 runs, newest first; 3 older ones" in Page((tmp_path / "index.html").read_text()).text


def test_a_reports_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    settings = small_lake(tmp_path)
    settings.reports_root.write_text("in the way")
    with pytest.raises(ConfigurationFault, match="Set ASSAY_REPORTS"):
        write_report(settings, CLOUDTRAIL, RUN, NOW)


def test_the_command_prints_where_the_report_is(settings):
    command = [sys.executable, "-m", "spark_jobs.jobs.report", "--pipeline", "cloudtrail", "--run-id"]
    env = environment(settings) | {"PATH": "/nonexistent"}
    done = subprocess.run([*command, RUN], capture_output=True, text=True, env=env, check=True)
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["report"].endswith("index.html")
    assert "Every record accounted for: 4 read = 2 published" in said["sentence"]
    done = subprocess.run([*command, "nothing"], capture_output=True, text=True, env=env, check=True)
    assert json.loads(done.stdout.splitlines()[-1])["report"] is None


def test_asking_for_the_latest_report_takes_the_newest_run(tmp_path):
    from tests.builders.assay_command import assay, assay_json

    settings = small_lake(tmp_path)
    assert assay_json(settings, "report", "--run-id", RUN)["run_id"] == RUN
    write(settings, BOOKS, books_row(run_id="newest", finished_at=NOW.replace(day=3)))
    assert assay_json(settings, "report", "--latest")["run_id"] == "newest"
    assert "has done anything" in assay(settings, "report", "--run-id", "nosuch", exit_code=2).stderr
