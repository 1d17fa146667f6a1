"""What a person does in Airflow's pages, done in a real browser: sign in, fill in the form, read the plan, approve, release."""

import json
import shutil
from urllib.parse import quote

import pytest

from tests.builders.browser import PROGRAM, browser
from tests.builders.events import event
from tests.builders.landing_files import SAMPLE, document, land, packed
from tests.builders.running_airflow import running

EVENTS = 2092  # of the sample
RUNS = "/dags/cloudtrail_backfill/runs/"


@pytest.fixture
def up(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "landing").mkdir()
    with running(tmp_path / "home", landing=tmp_path / "landing") as one:
        yield one


@pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium on this machine")
def test_the_sample_is_loaded_as_history_and_a_held_batch_released_by_clicking(up, tmp_path, say):
    source = tmp_path / "history"
    shutil.copytree(SAMPLE, source)
    changes = [{}, {"recipientAccountId": "twelve digits"}, {"eventID": None}]
    bad = [event(number, eventTime="2024-05-01T10:00:00Z", **change) for number, change in enumerate(changes)]
    name = "AWSLogs/111122223333/CloudTrail/eu-west-1/2024/05/01/111122223333_CloudTrail_eu-west-1_20240501T1030Z_0000.json.gz"
    up.wait_for("Ctrl-C stops all of it")
    api = up.api()
    with browser(api.base, tmp_path / "profile") as page:
        page.open("/")
        page.fill("[name=username]", "admin")
        page.fill("[name=password]", json.loads((up.home / "airflow" / "passwords.json").read_text())["admin"])
        page.press("Sign in")
        page.wait_for("Welcome")

        # A dry run shows the plan on the run's page and changes nothing.
        dry = start(page, source, "2023-07-10", "2023-07-10")
        up.wait_for(rf"Run {dry} of cloudtrail_backfill ended: success".replace("+", r"\+"))
        page.open(f"{RUNS}{quote(dry, safe='')}/plugin/quality_report")
        page.wait_for("Days that change")
        assert "36" in page.text() and up.rows("silver.cloudtrail_events") == []
        page.picture(tmp_path / "plan.png")

        # For real, after Approve; what came of it stands where the plan stood.
        land(source, packed(document(json.dumps(record).encode() for record in bad)), name)
        real = start(page, source, "2023-07-10", "2024-05-01", dry=False)
        page.open(f"{RUNS}{quote(real, safe='')}/required_actions")
        page.wait_for("37")
        page.press("Approve")
        up.wait_for(rf"Run {real} of cloudtrail_backfill ended: success".replace("+", r"\+"))
        page.open(f"{RUNS}{quote(real, safe='')}/plugin/quality_report")
        page.wait_for("Predicted and actual")

        # One batch of both: the gate held it whole. Released by a click, it is published once, under the user's name.
        batch = up.rows("silver.cloudtrail_events_held")[0]["_batch_id"]
        run_id = f"held__silver.cloudtrail_events__{batch}"
        up.question_of(run_id)
        page.open(f"/dags/cloudtrail_held/runs/{run_id}/required_actions")
        page.wait_for("account_id")
        assert "twelve digits" not in page.text()
        page.fill("[name=element_note]", "seen in the browser")
        page.picture(tmp_path / "held.png")
        page.press("Release")
        up.wait_for(rf"Run {run_id} of cloudtrail_held ended: success")
    assert len(up.rows("silver.cloudtrail_events")) == EVENTS + 2
    assert up.rows("silver.cloudtrail_events_held") == []
    assert [(row["decision"], row["who"], row["note"]) for row in up.rows("_ops.decisions")] == [
        ("release", "admin", "seen in the browser")
    ]

    # The other DAGs on this lake: what is still broken stays in quarantine, and the day's run proves the rest.
    replay = api.trigger("cloudtrail_quarantine_replay", rule="missing_event_id")
    up.wait_for(rf"Run {replay} of cloudtrail_quarantine_replay ended: success".replace("+", r"\+"))
    place = f"/dags/cloudtrail_quarantine_replay/dagRuns/{quote(replay, safe='')}/taskInstances/replay_quarantine"
    said = api._ask("GET", f"{place}/xcomEntries/return_value?deserialize=true")["value"]
    assert (said["recovered"], said["still_bad"], said["duplicate"]) == (0, 1, 0)
    day = api.trigger("cloudtrail_daily")
    up.wait_for(rf"Run {day} of cloudtrail_daily ended: success".replace("+", r"\+"))
    assert sum(row["event_count"] for row in up.rows("gold.cloudtrail_account_activity_1d")) == EVENTS + 2
    assert {(row["is_equal"], row["run_id"]) for row in up.rows("_ops.audits") if row["run_id"] == day} == {(True, day)}
    say(f"pictures of the pages: {tmp_path}/plan.png, {tmp_path}/held.png")


def start(page, source, first, last, dry=True):
    """Fill in the form of the backfill and send it; returns the run that the page then shows."""
    page.open("/dags/cloudtrail_backfill")
    page.press("Trigger")
    page.fill("[name=element_from]", first)
    page.fill("[name=element_to]", last)
    page.fill("[name=element_source]", str(source))
    if not dry:
        page.tick("[name=element_dry_run]")
    page.press("Trigger")
    page.wait_for_address(RUNS)
    return page.address().split(RUNS)[1]
