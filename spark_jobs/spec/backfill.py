"""The vocabulary of backfills: what is asked for, the states of a backfill and of its chunks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from typing import Any, Literal, get_args

from spark_jobs.spec.errors import ConfigurationFault

What = Literal["load", "replay", "recompute"]
# planned → claimed → admitted → done; a chunk that a gate stopped is claimed again after the decision.
ChunkState = Literal["planned", "claimed", "admitted", "stopped", "done", "cancelled"]
OPEN: tuple[ChunkState, ...] = ("planned", "claimed", "admitted", "stopped")

CHUNK_FILES = 2048  # four batches: the start of a driver is paid once for them, and a killed chunk costs minutes, not hours
CHUNK_BATCHES = 4  # the same bound for bytes, in batches of `batch_mb`
CHUNK_DAYS = 7  # of a recompute: each day's windows are read and written once, in memory for a week at most

ACCOUNT = re.compile(r"\d{12}")  # as folders and options name them
REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d{1,2}")
_NAME = re.compile(r"bf_[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """What a person asked for. `first` and `last` are dates, both included; empty tuples and texts mean no restriction."""

    what: What
    first: date
    last: date
    accounts: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    source: str = ""  # where the history lies, if not below the landing root
    chunk_files: int = CHUNK_FILES
    is_newest_first: bool = False

    @classmethod
    def parse(
        cls, what: str, first: str, last: str, *, accounts: str = "", regions: str = "", source: str = "", chunk_files: int = 0,
        is_newest_first: bool = False,
    ) -> BackfillRequest:  # fmt: skip
        """From options as text; raises ConfigurationFault with one sentence for what is wrong."""
        if what not in get_args(What):
            raise ConfigurationFault(f"'{what}' is not a kind of backfill. Use {', '.join(get_args(What))}.")
        start, end = _day("from", first), _day("to", last)
        if start > end:
            raise ConfigurationFault(f"The range is empty: from {start} is after to {end}. Give the earlier date as from.")
        if source and what != "load":
            raise ConfigurationFault(f"A source is where `load` finds its files; {what} works on what the lake holds. Leave it out.")
        if what == "recompute" and (accounts or regions):
            raise ConfigurationFault("Recompute makes whole windows again, of all accounts and regions. Leave both out.")
        if chunk_files < 0 or chunk_files > 100_000:
            raise ConfigurationFault(f"A chunk of {chunk_files} files is impossible; give a number from 1 to 100,000.")
        return cls(
            what,  # type: ignore[arg-type]  # looked up above
            start,
            end,
            _names(accounts, ACCOUNT, "an account; accounts are 12 digits"),
            _names(regions, REGION, "a region; regions read like eu-west-1"),
            source.rstrip("/"),
            chunk_files or CHUNK_FILES,
            is_newest_first,
        )

    @classmethod
    def from_plan(cls, kept: dict[str, Any]) -> BackfillRequest:
        """What `as_plan` made."""
        dates = {name: date.fromisoformat(kept[name]) for name in ("first", "last")}
        return cls(**{**kept, **dates, "accounts": tuple(kept["accounts"]), "regions": tuple(kept["regions"])})

    def as_plan(self) -> dict[str, Any]:
        return asdict(self) | {"first": self.first.isoformat(), "last": self.last.isoformat()}

    def of(self, **changes: Any) -> BackfillRequest:
        return replace(self, **changes)

    @property
    def dates(self) -> Iterator[date]:
        """The days, in the order in which they are to be done."""
        days = [self.first + timedelta(days=n) for n in range((self.last - self.first).days + 1)]
        return iter(reversed(days) if self.is_newest_first else days)

    def __str__(self) -> str:
        scope = [f"{name} {', '.join(wanted)}" for name, wanted in (("accounts", self.accounts), ("regions", self.regions)) if wanted]
        return ", ".join([f"{self.what} from {self.first} to {self.last}", *scope, *([f"source {self.source}"] if self.source else [])])


def backfill_name(pipeline: str, run_id: str) -> str:
    """The id of the backfill that a run plans: the same for every try of that run."""
    return f"bf_{hashlib.blake2b(f'{pipeline}|{run_id}'.encode(), digest_size=6).hexdigest()}"


def check_name(backfill_id: str) -> str:
    """The id itself; raises ConfigurationFault for a text that can be none (it becomes part of a path)."""
    if not _NAME.fullmatch(backfill_id):
        raise ConfigurationFault(f"'{backfill_id}' is not the id of a backfill. `assay backfill status` lists them.")
    return backfill_id


def _day(which: str, text: str) -> date:
    try:
        return date.fromisoformat(text.strip()[:10]) if re.fullmatch(r"\d{4}-\d{2}-\d{2}(T.*)?", text.strip()) else _refuse(which, text)
    except ValueError:
        return _refuse(which, text)


def _refuse(which: str, text: str) -> date:
    raise ConfigurationFault(f"'{text}' is not a date (of `{which}`); write yyyy-mm-dd, as in 2024-05-01.")


def _names(text: str, pattern: re.Pattern[str], expected: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if not pattern.fullmatch(name):
            raise ConfigurationFault(f"'{name}' is not {expected}. Separate several by commas.")
    return names
