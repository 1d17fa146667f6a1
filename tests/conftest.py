"""One real Spark session for all tests that need no process of their own: a process has one JVM, whose class path is fixed."""

import os
import sys
import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_jobs.io.session import open_session
from spark_jobs.spec.settings import load_settings
from tests.builders.stack import PROJECT


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers run the first python3 on PATH, which lacks the libraries
    os.environ["TZ"] = "UTC"  # collect() gives naive times in the driver's own zone
    time.tzset()
    session = open_session(load_settings(home=PROJECT / ".assay"), "assay tests", small=True)
    yield session
    session.stop()
