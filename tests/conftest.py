"""One real Spark session for all tests that need no process of their own: a process has one JVM, whose class path is fixed."""

import gc
import os
import sys
import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_jobs.io import java_options
from spark_jobs.io.session import open_session
from spark_jobs.spec.settings import load_settings
from tests.builders.stack import PROJECT


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers run the first python3 on PATH, which lacks the libraries
    os.environ["TZ"] = "UTC"  # collect() gives naive times in the driver's own zone
    time.tzset()
    with pytest.MonkeyPatch.context() as patched:
        # Unlike a small run, a session of twenty minutes earns back the optimising compiler: a fifth less time.
        patched.setattr(java_options, "SMALL", "-XX:+UseSerialGC")
        # Hundreds of streams in one session: their plans and Delta's snapshots of a thousand tables do not fit the 2 GB of a driver.
        session = open_session(load_settings(home=PROJECT / ".assay", driver_memory="3g"), "assay tests", small=True)
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def _let_go():
    """What a module leaves in Python holds plans in the JVM."""
    yield
    gc.collect()


# What takes minutes starts first, so that the two processes of `make test` end at about the same time.
LONGEST = (
    "test_up",
    "test_continuous_kills",
    "test_hourly_dag",
    "test_stream",
    "test_maintenance",
    "test_replay_quarantine",
    "test_silver_rules",
)


def pytest_collection_modifyitems(items):
    """The longest files first; within a file the order stays."""
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))
