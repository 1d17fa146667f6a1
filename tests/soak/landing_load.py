"""What lands during a soak: good files and every kind of bad one, with a note of each event that must be found in the end."""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.builders.deliveries import NO_EVENT_ID, NO_TIME, NOT_TEXT, text
from tests.builders.landing_files import FileCase, bad_files, document, log_path, packed

ACCOUNTS = ("111122223333", "444455556666")
REGIONS = ("eu-west-1", "us-east-1")
# Files too large or too slow to be read all the time; each has a test of its own.
LEFT_OUT = {"long_string", "very_deep_nesting", "bomb"}
FIRST_EVENT = 1_000_000  # the numbers below are those of the bad files' events


@cache
def _bad_files() -> list[FileCase]:
    return [case for case in bad_files() if case.name not in LEFT_OUT]


@dataclass
class LandingLoad:
    """`land(what, seed)` puts files into the landing folder. `wanted`: the ids of the events that whole files held."""

    landing: Path
    files: int = 0
    events: int = 0
    wanted: set[str] = field(default_factory=set)
    _good: list[tuple[Path, list[bytes]]] = field(default_factory=list)  # what may be delivered again or rewritten
    _half: list[tuple[Path, list[bytes]]] = field(default_factory=list)  # what is still being written

    def land(self, what: str, seed: int) -> str:
        """One delivery; a few words on it."""
        chance = random.Random(seed)
        while self._half and chance.random() < 0.5:
            self._finish(*self._half.pop())
        match what:
            case "good":
                return self._land_good(chance, files=chance.randint(1, 3))
            case "burst":
                return self._land_good(chance, files=chance.randint(20, 60))
            case "late":
                return self._land_good(chance, files=1, day=f"2024-04-{chance.randint(1, 28):02d}")
            case "re-delivery" if self._good:
                _, records = chance.choice(self._good)
                self._put(chance, packed(document(records)))
                return "a file's events again under another name"
            case "rewritten" if self._good:
                path, records = self._good.pop(chance.randrange(len(self._good)))
                more = [*records, *self._new_events(chance, 5)]
                path.write_bytes(packed(document(more)))  # in place: a reader may meet half of it
                self._keep(path, more)
                return f"{path.name} with 5 events more"
            case "truncated":
                records = self._new_events(chance, 20)
                content = packed(document(records))
                self._half.append((self._put(chance, content[: len(content) // 2]), records))
                return "half a file, perhaps completed later"
            case "broken records":
                records = self._new_events(chance, 5)
                path = self._put(chance, packed(document([records[0], NO_EVENT_ID, *records[1:3], NOT_TEXT, NO_TIME, *records[3:]])))
                self._keep(path, records, may_change=False)
                return "3 of 8 records are broken"
            case "damaged":
                bad = chance.choice(_bad_files())
                self._put(chance, bad.stored, bad.suffix)
                return bad.name.replace("_", " ")
        return self._land_good(chance, files=1)

    def finish(self) -> None:
        """Complete what is still half there: in the end no file is being written."""
        while self._half:
            self._finish(*self._half.pop())

    def _finish(self, path: Path, records: list[bytes]) -> None:
        path.write_bytes(packed(document(records)))
        self._keep(path, records)

    def _land_good(self, chance: random.Random, *, files: int, day: str = "2024-05-01") -> str:
        for _ in range(files):
            records = self._new_events(chance, chance.randint(5, 60), day)
            self._keep(self._put(chance, packed(document(records))), records)
        return f"{files} files"

    def _new_events(self, chance: random.Random, count: int, day: str = "2024-05-01") -> list[bytes]:
        first = FIRST_EVENT + self.events
        self.events += count
        return [text(n, eventTime=f"{day}T{chance.randrange(24):02d}:{chance.randrange(60):02d}:15Z") for n in range(first, first + count)]

    def _keep(self, path: Path, records: list[bytes], *, may_change: bool = True) -> None:
        self.wanted |= {str(json.loads(record)["eventID"]) for record in records}
        if may_change:
            self._good.append((path, records))

    def _put(self, chance: random.Random, content: bytes, suffix: str = ".json.gz") -> Path:
        """As an object store shows it: not there, then whole."""
        self.files += 1
        path = self.landing / log_path(self.files, suffix, chance.choice(ACCOUNTS), chance.choice(REGIONS))
        path.parent.mkdir(parents=True, exist_ok=True)
        away = self.landing.parent / f"{path.name}.part"
        away.write_bytes(content)
        os.replace(away, path)
        return path
