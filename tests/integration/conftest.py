"""A fresh stack for each test, and a lake in the middle of its life for the tests that disturb it."""

import pytest

from tests.builders.disturbed import Scene
from tests.builders.stack import Stack


@pytest.fixture
def stack(tmp_path, spark):
    return Stack(tmp_path, spark)


@pytest.fixture(scope="session")
def scene(tmp_path_factory, spark):
    """A lake with a second delivery before it, and what it must become. Without gates: importing Great Expectations costs each process
    10 CPU-seconds; `make certify` has them."""
    return Scene(tmp_path_factory.mktemp("scene"), spark, gates=False, lease_ttl_s=5)
