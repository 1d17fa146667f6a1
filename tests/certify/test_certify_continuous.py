"""`make up`, switched to continuous: what is killed comes back, one run relieves the other, and a fault that stays pauses the DAG."""

import shutil
import time
from urllib.parse import quote

import psutil
import pytest

from spark_jobs.io.relay import driver_of, successors
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.settings import load_settings
from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.continuous_driver import until, words_of
from tests.builders.deliveries import text
from tests.builders.landing_files import document, land, log_path, packed
from tests.builders.running_airflow import running
from tests.builders.stack import Stack

HOURLY, CONTINUOUS = "cloudtrail_hourly", "cloudtrail_continuous"
PIPELINE = load_pipeline("cloudtrail")
LIFETIME_MIN = 3
MORE = {"ASSAY_LIFETIME_MIN": str(LIFETIME_MIN), "ASSAY_GOLD_TRIGGER": "every 5 seconds"}
PART = 5
NOTICED_S = 75 + 10  # a killed supervisor: until its heartbeat is missed, and until the scheduler looks


class Continuous:
    """A running `make up` and what it publishes; each delivery has five events of its own."""

    def __init__(self, up):
        self.up, self.parts = up, 0
        self.settings = load_settings(home=up.home, landing=str(up.landing))

    def deliver(self):
        numbers = range(self.parts * PART, self.parts * PART + PART)
        self.parts += 1
        land(self.up.landing, packed(document(text(number) for number in numbers)), log_path(self.parts))

    def published(self):
        return len(self.up.rows("silver.cloudtrail_events"))

    def wait_for_all(self, why):
        """Seconds until every delivered event is published."""
        began = time.monotonic()
        until(lambda: self.published() == self.parts * PART, why, within_s=600)
        return time.monotonic() - began

    def driver(self):
        """The Python process of the driver at work; between two runs, of the next one."""
        until(lambda: driver_of(self.settings, PIPELINE) is not None, "no driver has come to work")
        return psutil.Process(driver_of(self.settings, PIPELINE).pid)

    def runs(self, dag_id=CONTINUOUS):
        return self.up.api().runs(dag_id)


@pytest.fixture(scope="module")
def continuous(tmp_path_factory):
    landing = tmp_path_factory.mktemp("landing")
    with running(tmp_path_factory.mktemp("up"), landing, **MORE) as up:
        one = Continuous(up)
        one.deliver()
        up.wait_for("Ctrl-C stops all of it")
        yield one


def test_switched_on_what_lands_is_published_and_hourly_runs_find_nothing_to_do(continuous, say):
    up = continuous.up
    assert up.api().dag(CONTINUOUS)["is_paused"], "nobody is switched over without a wish"
    up.api().switch(CONTINUOUS, on=True)
    first_s = continuous.wait_for_all("the continuous run has not begun")
    continuous.deliver()
    second_s = continuous.wait_for_all("it does not go on")
    run_id = up.api().trigger(HOURLY)
    up.wait_for(rf"Run {run_id.replace('+', '.')} of {HOURLY} ended: success")
    tasks = up.api()._ask("GET", f"/dags/{HOURLY}/dagRuns/{quote(run_id)}/taskInstances")["task_instances"]
    states = {task["task_id"]: task["state"] for task in tasks}
    assert states.pop("discover") == states.pop("report") == states.pop("ask_decisions") == "success"
    assert set(states.values()) == {"skipped"}
    logs = "".join(file.read_text(errors="replace") for file in (up.home / "airflow" / "logs").rglob(f"*{HOURLY}*/**/*.log"))
    assert "is run continuously by" in logs
    say(f"  switched on: first events {first_s:.0f} s after, the next delivery in {second_s:.0f} s; the hourly run was green and skipped")


@pytest.mark.parametrize("who", ["Python worker", "JVM", "driver", "task runner", "supervisor"])
def test_what_is_killed_comes_back_by_itself(continuous, say, who):
    driver = continuous.driver()
    jvm = driver.parent()
    runner = jvm.parent()
    workers = [one for one in jvm.children(recursive=True) if "pyspark.daemon" in words_of(one)]
    victim = {"Python worker": workers[-1] if workers else jvm, "JVM": jvm, "driver": driver,
              "task runner": runner, "supervisor": runner.parent()}[who]  # fmt: skip
    assert "LocalExecutor" in words_of(runner.parent()), "these are Airflow's processes"
    victim.kill()
    continuous.deliver()
    came_back_s = continuous.wait_for_all(f"nothing came after the {who} was killed")
    if who != "Python worker":  # an idle one is replaced, and its driver lives on
        until(lambda: not jvm.is_running() or jvm.status() == psutil.STATUS_ZOMBIE, "the old driver lives on", within_s=60)
    say(f"  {who} killed: published again after {came_back_s:.0f} s")


def test_one_run_relieves_the_other(continuous, say):
    ended = [run["dag_run_id"] for run in continuous.runs() if run["state"] == "success"]
    until(lambda: len([run for run in continuous.runs() if run["state"] == "success"]) > len(ended), "no run ended", within_s=600)
    continuous.deliver()
    gap_s = continuous.wait_for_all("the next run does not go on")
    assert [run for run in continuous.runs() if run["state"] == "failed"] == []
    events = [row["event"] for row in sorted(continuous.up.rows("_ops.query_events"), key=lambda row: row["at"]) if row["table"] == ""]
    assert events.count("started") >= 2 and "terminated" in events
    say(f"  relay: a file that landed as one run ended was published by the next {gap_s:.0f} s later")


def test_a_killed_scheduler_ends_all_of_it_and_the_next_up_goes_on(continuous, say):
    up = continuous.up
    schedulers = [server for keeper in psutil.Process(up.process.pid).children() if " scheduler" in words_of(keeper)
                  for server in keeper.children()]  # fmt: skip
    family = up.family()
    schedulers[0].kill()
    assert up.process.wait(timeout=120) == 1
    assert "its scheduler ended with exit code 137" in up.said
    assert [process for process in family if process.is_running() and process.status() != psutil.STATUS_ZOMBIE] == []
    assert driver_of(continuous.settings, PIPELINE) is None
    continuous.deliver()
    up.start()
    up.wait_for("Ctrl-C stops all of it")
    say(f"  scheduler killed: published {continuous.wait_for_all('the next up does not go on'):.0f} s after the next up was ready")


def test_of_two_airflows_on_one_lake_one_writes_and_the_other_takes_over_when_it_dies(continuous, tmp_path_factory, say):
    up = continuous.up
    with running(tmp_path_factory.mktemp("other"), up.landing, **MORE, ASSAY_LAKE=str(up.home / "lake")) as other:
        other.wait_for("Ctrl-C stops all of it")
        other.api().switch(CONTINUOUS, on=True)
        until(lambda: successors(continuous.settings, PIPELINE), "the other one does not wait for its turn")
        continuous.deliver()
        continuous.wait_for_all("beside one that waits, nothing is published")
        family = up.family()
        up.process.kill()
        up.process.wait()
        continuous.deliver()
        taken_over_s = continuous.wait_for_all("the other one does not take over")
        until(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family), "the first one is not gone")
        other.api().switch(CONTINUOUS, on=False)
    up.start()
    up.wait_for("Ctrl-C stops all of it")
    continuous.deliver()
    continuous.wait_for_all("the first one does not come back")
    say(f"  two Airflows on one lake: the other one published {taken_over_s:.0f} s after the first one was killed")


def test_in_the_end_every_record_is_accounted_for(continuous):
    stack = Stack(continuous.up.home / "unused", home=continuous.up.home, lake=str(continuous.up.home / "lake"))
    stack.landing = continuous.up.landing

    def is_whole():
        try:
            return assert_every_record_accounted_for(stack)
        except AssertionError:
            return None

    until(lambda: is_whole() is not None, "gold does not follow")
    assert is_whole().silver == continuous.parts * PART


def test_a_fault_that_stays_fails_the_run_and_pauses_the_dag(continuous, say):
    """Its checkpoint is damaged: the next try would find the same, and so would the next run."""
    up = continuous.up
    folder = up.home / "lake" / "_checkpoints" / "bronze.cloudtrail_records"
    driver = continuous.driver()
    for generation in folder.iterdir():
        shutil.move(generation / "metadata", generation / "metadata.away")
    driver.kill()
    until(lambda: up.api().dag(CONTINUOUS)["is_paused"], "the DAG goes on", within_s=300)
    until(lambda: continuous.runs()[0]["state"] == "failed", "the run has not failed", within_s=120)
    reasons = [line for line in (up.home / "failures.jsonl").read_text().splitlines() if CONTINUOUS in line]
    assert "checkpoint" in reasons[-1]
    say("  a damaged checkpoint: the run failed with its sentence, and the DAG is paused")
