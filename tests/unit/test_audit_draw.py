"""Drawing rows by seed from a table's log: each row equally likely, and a damaged one found within the number of draws that odds give."""

from math import comb

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from spark_jobs.jobs.audit_draw import Population
from tests.builders.ops_rows import ACTIVITY, small_settings

ROWS, DRAWN = 100, 20


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """100 rows in files of unlike size, on three days; at version 6 a row more than at the version that is drawn from."""
    settings = small_settings(tmp_path_factory.mktemp("population"))
    first = 0
    for size, day in ((1, "a"), (40, "a"), (9, "b"), (25, "c"), (25, "a"), (0, "b"), (1, "c")):
        rows = pa.table({"n": range(first, first + size), "window_date": pa.array([day] * size, pa.string())})
        write_deltalake(settings.location(ACTIVITY), rows, mode="append", partition_by=["window_date"])
        first += size
    return settings


def population(settings, seed, days=frozenset()):
    return Population(settings, ACTIVITY, 5, seed, "window_date", days)


def test_each_row_is_drawn_once_at_most_and_as_often_as_any_other(settings):
    assert population(settings, "").rows == ROWS
    counts = dict.fromkeys(range(ROWS), 0)
    for seed in range(300):
        drawn = [row["n"] for row in population(settings, str(seed)).draw(DRAWN, ["n"])]
        assert len(set(drawn)) == DRAWN
        for n in drawn:
            counts[n] += 1
    # 300 draws of 20 in 100 are 60 for each row; 5 standard deviations of that are 35.
    assert all(25 < count < 95 for count in counts.values()), counts


def test_a_seed_always_draws_the_same_rows_and_days_limit_them(settings):
    assert population(settings, "x").draw(5, ["n"]) == population(settings, "x").draw(5, ["n"])
    assert population(settings, "x").draw(5, ["n"]) != population(settings, "y").draw(5, ["n"])
    assert sorted(row["n"] for row in population(settings, "x", frozenset("b")).draw(50, ["n"])) == list(range(41, 50))
    assert {row["window_date"] for row in population(settings, "x").draw(50, ["n", "window_date"])} == {"a", "b", "c"}


def test_one_row_in_a_hundred_is_found_within_the_number_of_draws_that_the_odds_give(settings):
    """Hypergeometric: a draw of 20 misses one row of 100 with comb(99, 20) / comb(100, 20) = 0.8; 21 draws in less than 1 of 100."""
    missed = comb(ROWS - 1, DRAWN) / comb(ROWS, DRAWN)
    draws = next(number for number in range(1, 100) if missed**number < 0.01)
    for damaged in (0, 57, 99):
        tries = [damaged in {row["n"] for row in population(settings, f"{damaged} {n}").draw(DRAWN, ["n"])} for n in range(draws)]
        assert any(tries)
