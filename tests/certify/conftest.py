"""The long proofs: `make certify`, or `python -m pytest tests/certify -q -s`, which prints what each proved and how long it took."""

from pathlib import Path

import pytest

from tests.builders.disturbed import Scene

HERE = Path(__file__).parent


def pytest_configure(config):
    """Asked for by its folder, it is meant to run: `make test` leaves it out by its mark."""
    if any(Path(argument.split("::")[0]).resolve().is_relative_to(HERE) for argument in config.args):
        config.option.markexpr = ""


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.certify)
            item.add_marker(pytest.mark.timeout(3600))


@pytest.fixture(scope="session")
def scene(tmp_path_factory, spark):
    return Scene(tmp_path_factory.mktemp("certify"), spark, lease_ttl_s=5)


@pytest.fixture
def say(capsys):
    """Print a line of the proof, whatever the capture."""

    def line(text):
        with capsys.disabled():
            print(text, flush=True)

    return line
