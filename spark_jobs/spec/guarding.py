"""Which processes a job must not outlive, as whoever starts it says so: an environment variable with their process ids."""

from __future__ import annotations

from collections.abc import Mapping

VARIABLE = "ASSAY_GUARDED_BY"  # not a setting: it is true of one process and those that it starts


def guarded_by(*pids: int) -> dict[str, str]:
    """What to add to the environment of a job that must end when any of these ancestors of it does.

    A job that is started without it, as by a person with `nohup`, goes on when its shell ends.
    """
    return {VARIABLE: " ".join(str(pid) for pid in pids if pid > 0)}


def guardians(environment: Mapping[str, str]) -> list[int]:
    """The process ids that were given; words that are none are passed over."""
    return [int(word) for word in environment.get(VARIABLE, "").split() if word.isdecimal()]
