"""What happens when: all of a soak's landings and disturbances, from one seed. Pure, so that a soak can be played again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

# What is killed or frozen, by the place it has in the family of processes; see tests/soak/services.py.
DISTURBANCES = ("kill driver", "kill JVM", "kill worker", "kill task runner", "kill scheduler", "freeze and overtake", "freeze")
LANDINGS = ("good", "good", "good", "burst", "re-delivery", "late", "damaged", "truncated", "rewritten", "broken records")
CALM_START_S = 45.0  # the first driver, at work when the clock starts, gets to know what it is to do
CALM_END_S = 60.0  # the last restart has a start to wait for, the last landing two looks


@dataclass(frozen=True, slots=True, order=True)
class Happening:
    """At so many seconds after the start: a landing or a disturbance. `seed` decides its details."""

    at_s: float
    what: str
    seed: int

    def __str__(self) -> str:
        return f"{self.at_s:7.1f} s  {self.what} ({self.seed})"


def schedule(seed: int, minutes: float) -> list[Happening]:
    """In order of time. Each kind of disturbance and of landing comes as often as any other, give or take one."""
    chance = random.Random(seed)
    end_s = minutes * 60 - CALM_END_S
    landings = _spread(chance, LANDINGS, 1.0, end_s, (1.5, 6.0))
    disturbances = _spread(chance, DISTURBANCES, CALM_START_S, end_s - 20, (15.0, 55.0))
    return sorted(landings + disturbances)


def _spread(chance: random.Random, kinds: Sequence[str], from_s: float, to_s: float, pause_s: tuple[float, float]) -> list[Happening]:
    happenings: list[Happening] = []
    deck: list[str] = []
    at_s = from_s
    while at_s < to_s:
        if not deck:
            deck = chance.sample(kinds, len(kinds))
        happenings.append(Happening(round(at_s, 1), deck.pop(), chance.randrange(10**6)))
        at_s += chance.uniform(*pause_s)
    return happenings
