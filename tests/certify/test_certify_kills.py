"""SIGKILL of real drivers: at every named line, and at random moments. After a restart all tables equal those of an undisturbed run."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.builders.disturbed import differences, everything, kill, started, survivors
from tests.builders.kill_at import KillPoint
from tests.builders.kill_points import COMMIT, POINTS
from tests.builders.stack import PROJECT

RANDOM_KILLS = int(os.environ.get("ASSAY_CERTIFY_KILLS", "20"))
SEED = int(os.environ.get("ASSAY_CERTIFY_SEED", "20230710"))


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_a_driver_killed_there_and_started_again_ends_as_if_undisturbed(scene, say, point):
    stack = scene.copy(point.name.replace(" ", "_").replace("'", ""))
    if point.job != "discover":
        stack.discover()
    began = time.monotonic()
    kill(stack, point)
    killed_after = time.monotonic() - began
    assert not survivors(stack)
    stack.discover()
    assert stack.run() is None
    assert not differences(everything(stack), scene.undisturbed)
    say(f"  killed {point.name} ({killed_after:.0f} s after its start): equal after one restart")


def test_drivers_killed_at_random_moments_end_as_if_undisturbed(scene, say):
    """Restarts are killed too, until one comes through; then a new lake begins."""
    moments = random.Random(SEED)
    calm = scene.copy("random_calm")
    calm.discover()
    began = time.monotonic()
    assert calm.job("run_layers").returncode == 0
    whole_s = time.monotonic() - began
    say(f"  seed {SEED}; an undisturbed process takes {whole_s:.0f} s")
    kills = lakes = 0
    while kills < RANDOM_KILLS:
        lakes += 1
        stack = scene.copy(f"random_{lakes}")
        stack.discover()
        where = []
        for _ in range(5):
            delay_s = moments.uniform(0.2 * whole_s, 1.05 * whole_s)  # the first fifth is Python and the JVM starting
            with started(stack) as job:
                try:
                    job.communicate(timeout=delay_s)
                except subprocess.TimeoutExpired:
                    job.send_signal(signal.SIGKILL)
                    job.communicate()
            assert not survivors(stack)
            assert job.returncode in (0, -signal.SIGKILL)
            if job.returncode == 0:
                break
            kills += 1
            where.append(f"{delay_s:.1f} s: {_state(stack)}")
        assert stack.run() is None
        assert not differences(everything(stack), scene.undisturbed), f"seed {SEED}, lake {lakes}: {where}"
        say(f"  lake {lakes}: killed {len(where)} times, equal in the end ({'; '.join(where)})")
    say(f"  {kills} kills at random moments on {lakes} lakes: all equal")


def _state(stack):
    names = ("bronze.cloudtrail_records", "silver.cloudtrail_events", "gold.cloudtrail_denied_15m", "_ops.books")
    return "/".join(str(stack.arrow(name).num_rows) for name in names)


@pytest.mark.parametrize("parent", [False, True], ids=["its Python", "its JVM"])
def test_of_a_submitted_driver_nothing_is_left_when_half_of_it_is_killed(scene, say, parent):
    """As Airflow starts it: spark-submit is the JVM, the driver's Python its child."""
    stack = scene.copy(f"submitted_{parent}")
    stack.discover()
    point = KillPoint("before the bronze commit", COMMIT, parent=parent)
    done = subprocess.run(_submit(stack, point), env=stack.environment(), cwd=PROJECT, text=True, capture_output=True, timeout=300)
    assert done.returncode not in (0, 3), done.stderr
    began = time.monotonic()
    assert not survivors(stack)
    say(f"  submitted driver, {'JVM' if parent else 'Python'} killed: the rest was gone {time.monotonic() - began:.1f} s later")
    assert stack.run() is None
    assert not differences(everything(stack), scene.undisturbed)


def _submit(stack, point):
    submit = str(Path(sys.executable).with_name("spark-submit"))
    jars = f"spark.driver.extraClassPath={stack.settings.home}/jars/*"
    script = [str(PROJECT / "tests" / "builders" / "kill_at.py"), json.dumps(asdict(point)), "spark_jobs.jobs.run_layers"]
    options = ["--pipeline", stack.pipeline.name, "--run-id", "submitted"]
    return [submit, "--master", stack.settings.master, "--conf", jars, "--driver-memory", "1g", *script, *options]
