"""The rule of adaptive batches, against a query with a fixed cost and a rate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.spec.batch_size import BEHIND, BatchSize

MB = 1_000_000
LEAST, MOST = 4 * MB, 64 * MB


def _run(size: BatchSize, backlog: float, rate: float, fixed_s: float, batches: int) -> float:
    """So many batches of a query that has `backlog` bytes before it and takes `rate` bytes per second; returns the last one's seconds."""
    seconds = 0.0
    for _ in range(batches):
        taken = min(backlog, size.limit)
        backlog -= taken
        seconds = fixed_s + taken / rate
        size.after(int(taken), seconds)
    return seconds


@given(
    st.lists(st.tuples(st.integers(0, 10**10), st.floats(0, 10_000))), st.integers(1, 600), st.integers(1, 10**9),
)  # fmt: skip
def test_the_limit_never_leaves_its_bounds_and_moves_by_at_most_a_factor_of_two(batches, target_s, start):
    size = BatchSize(target_s, LEAST, MOST, start)
    for taken, seconds in batches:
        before = size.limit
        assert LEAST <= size.after(taken, seconds) <= MOST
        assert before / 2 - 1 <= size.limit <= before * 2


@given(st.floats(0.5 * MB, 20 * MB), st.floats(0.5, 4), st.integers(LEAST, MOST))
def test_while_behind_a_batch_comes_to_take_three_triggers_or_the_largest_bound(rate, fixed_s, start):
    size = BatchSize(10, LEAST, MOST, start)
    seconds = _run(size, float("inf"), rate, fixed_s, 40)
    assert size.is_behind
    if LEAST < size.limit < MOST:
        assert seconds == pytest.approx(BEHIND * 10, rel=0.05)
    elif size.limit == MOST:
        assert seconds <= BEHIND * 10
    else:
        assert seconds >= BEHIND * 10


@given(st.floats(0.5 * MB, 20 * MB), st.floats(0.5, 4))
def test_caught_up_the_limit_is_what_takes_one_trigger(rate, fixed_s):
    size = BatchSize(10, LEAST, MOST, 8 * MB)
    _run(size, float("inf"), rate, fixed_s, 40)
    behind = size.limit
    _run(size, 0.0, rate, fixed_s, 40)
    assert not size.is_behind and size.limit <= behind
    assert size.limit <= max(LEAST, rate * 10)


def test_it_grows_with_a_backlog_and_shrinks_after_it():
    size = BatchSize(10, LEAST, MOST, 8 * MB)
    limits = [size.after(size.limit, 2 + size.limit / (2 * MB)) for _ in range(8)]
    assert limits == sorted(limits) and limits[-1] > 50 * MB
    limits = [size.after(10_000, 1.5) for _ in range(8)]
    assert limits == sorted(limits, reverse=True) and limits[-1] < 20 * MB


def test_a_backlog_in_small_pieces_grows_the_limit_no_faster_than_its_batches_do():
    size = BatchSize(10, LEAST, MOST, 8 * MB)
    limits = [size.after(3 * MB, 4.0, is_full=True) for _ in range(6)]
    assert limits[-1] == 6 * MB and size.is_behind  # twice what such a batch held, until batches hold more
    assert size.after(3 * MB, 4.0, is_full=False) <= limits[-1] and not size.is_behind


def test_small_batches_say_nothing_about_the_rate():
    size = BatchSize(10, LEAST, MOST, 32 * MB)
    for _ in range(20):
        size.after(5_000, 2.0)
    assert size.limit == 32 * MB
