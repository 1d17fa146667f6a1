"""One real Spark session for all integration tests that do not need a process of their own, and a fresh stack for each."""

import pytest

from spark_jobs.io.session import open_session
from spark_jobs.spec.settings import load_settings
from tests.builders.stack import PROJECT, Stack


@pytest.fixture(scope="session")
def spark():
    session = open_session(load_settings(home=PROJECT / ".assay"), "assay tests", small=True)
    yield session
    session.stop()


@pytest.fixture
def stack(tmp_path, spark):
    return Stack(tmp_path, spark)
