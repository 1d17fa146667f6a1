"""The table of promises names tests that exist."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
NAMED = sorted(set(re.findall(r"`(test_\w+)`", (TESTS / "README.md").read_text())))


def _written() -> set[str]:
    return {name for file in TESTS.rglob("test_*.py") for name in re.findall(r"^def (test_\w+)\(", file.read_text(), re.MULTILINE)}


@pytest.mark.parametrize("name", NAMED)
def test_a_promise_names_a_test_that_exists(name):
    assert name in _written()


def test_promises_are_named_at_all():
    assert len(NAMED) > 30
