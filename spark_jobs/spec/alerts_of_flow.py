"""Rules of alerts about the flow: too slow, too much, too little, too late, too bad, and no room left."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import ClassVar

from spark_jobs.spec.alert_facts import Arrivals, BatchPace, Disk, GrowingGroup, LateEvents, Traffic, Waiting
from spark_jobs.spec.incidents import Sign
from spark_jobs.spec.moments import clock, words

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
GB = 1_000_000_000


@dataclass(frozen=True, slots=True)
class FallingBehind:
    """More comes in than is processed, batch after batch."""

    name: ClassVar[str] = "falling_behind"
    reads: ClassVar[str] = "paces"
    batches: int = 5  # five in a row are no burst: at a 10 s trigger a minute, hourly five hours
    least_minutes: float = 2.0  # what waits less than this is in the batch that comes next

    @property
    def threshold(self) -> str:
        losing = f"input above processing, or what waits growing, in {self.batches} batches in a row"
        return f"{losing}, and more than {self.least_minutes:g} min behind"

    def signs(self, facts: Mapping[str, Sequence[BatchPace]], now: datetime) -> list[Sign]:
        found = []
        for table, paces in facts.items():
            newest = sorted(paces, key=lambda pace: pace.at)[-self.batches :]
            if len(newest) == self.batches and newest[-1].lag_minutes >= self.least_minutes and _is_losing(newest):
                found.append(Sign(self.name, table, "warning", f"{table} falls behind: {_catch_up(newest)}", newest[0].at))
        return found


def _is_losing(paces: Sequence[BatchPace]) -> bool:
    """More comes than goes; or what waits grows older and no less. (A backlog that is worked off grows older too, and less.)"""
    outrun = all(pace.input_rate > pace.processed_rate > 0 for pace in paces)
    grows_older = all(later.lag_minutes > earlier.lag_minutes for earlier, later in itertools.pairwise(paces))
    return outrun or (grows_older and paces[-1].lag_bytes >= paces[0].lag_bytes)


def _catch_up(paces: Sequence[BatchPace]) -> str:
    """From the trend of what waits; when that does not fall, from the rates: how long it takes once nothing more comes."""
    first, last = paces[0], paces[-1]
    behind = f"{last.lag_minutes:,.0f} min behind, {_rate(last.input_rate)} come in, {_rate(last.processed_rate)} are taken. "
    seconds = (last.at - first.at).total_seconds()
    fewer = first.lag_bytes - last.lag_bytes
    if fewer > 0 and seconds > 0:
        return behind + f"At the present trend it has caught up in {words(timedelta(seconds=last.lag_bytes * seconds / fewer))}."
    if last.processed_rate > 0:
        quiet = timedelta(seconds=last.lag_bytes / last.processed_rate)
        return behind + f"It does not catch up while this goes on; once nothing more comes it takes about {words(quiet)}."
    return behind + "It does not catch up while this goes on."


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e6:,.1f} MB/s" if bytes_per_s >= 1e5 else f"{bytes_per_s / 1e3:,.1f} kB/s"


@dataclass(frozen=True, slots=True)
class SourceSilent:
    """Nothing has landed for longer than is usual, or than is declared."""

    name: ClassVar[str] = "source_silent"
    reads: ClassVar[str] = "arrivals"
    bound: timedelta = DAY  # even a quiet account makes some call in a day
    times: float = 1.5  # half as long again as the longest pause of the week, which has its night and its weekend
    floor: timedelta = HOUR  # hourly runs enter what has landed once an hour
    least: int = 10  # fewer arrivals say nothing about what is usual

    @property
    def threshold(self) -> str:
        usual = f"{self.times:g} × the longest pause of the last 7 days (at least {words(self.floor)}, after {self.least} arrivals)"
        return f"{usual}, and {words(self.bound)} in any case"

    def signs(self, facts: Arrivals, now: datetime) -> list[Sign]:
        if not facts.moments:
            return []
        limit, why = self.bound, "the declared bound"
        if len(facts.moments) >= self.least:
            longest = max(later - earlier for earlier, later in zip(facts.moments, facts.moments[1:], strict=False))
            usual = max(self.floor, longest * self.times)
            if usual < limit:
                limit, why = usual, f"usual is {words(longest)} at most"
        last = facts.moments[-1]
        if now - last <= limit:
            return []
        sentence = f"Nothing has landed since {clock(last)}, for longer than {words(limit)} ({why})."
        return [Sign(self.name, "source", "warning", sentence, last + limit)]


@dataclass(frozen=True, slots=True)
class TrafficSpike:
    """Far more records in the last hour than at this hour of the preceding days."""

    name: ClassVar[str] = "traffic_spike"
    reads: ClassVar[str] = "traffic"
    times: float = 3.0  # working hours are two to three times the night's, and the same hour of another day has none of that
    least: int = 1000  # records; three times almost nothing is nothing
    days: int = 3  # so many days at that hour before they are the yardstick; until then the median of the last day's hours is

    @property
    def threshold(self) -> str:
        return f"{self.times:g} × the median of the same hour of the last 7 days, and at least {self.least:,} records in an hour"

    def signs(self, facts: Traffic, now: datetime) -> list[Sign]:
        records = _between(facts, now - HOUR, now)
        usual = self._usual(facts, now)
        if usual is None or records < self.least or records <= self.times * usual:
            return []
        sentence = (
            f"{records:,} records in the last hour, {usual:,.0f} are usual at this time: {records / max(usual, 1):,.1f} times as many."
        )
        return [Sign(self.name, "source", "warning", sentence, now - HOUR)]

    def _usual(self, facts: Traffic, now: datetime) -> float | None:
        same = [_between(facts, now - day * DAY - HOUR, now - day * DAY) for day in range(1, 8)]
        if sum(count > 0 for count in same) >= self.days:
            return median(count for count in same if count)
        hours = [_between(facts, now - (back + 1) * HOUR, now - back * HOUR) for back in range(1, 25)]
        return median(found) if len(found := [count for count in hours if count]) >= 6 else None  # a quarter of a day


def _between(facts: Traffic, after: datetime, until: datetime) -> int:
    return sum(records for at, records in facts.batches if after < at <= until)


@dataclass(frozen=True, slots=True)
class LateFlood:
    """Many events come after their windows had settled: numbers that were read already change."""

    name: ClassVar[str] = "late_flood"
    reads: ClassVar[str] = "late_events"
    share: float = 0.05  # of the events of an hour; below that a window moves by less than a reader would notice
    least: int = 100  # events

    @property
    def threshold(self) -> str:
        return f"{self.share:.0%} of the last hour's events, and at least {self.least:,}, changed windows that had settled"

    def signs(self, facts: LateEvents, now: datetime) -> list[Sign]:
        if facts.events < self.least or facts.events < self.share * facts.all_events:
            return []
        of = f" of {facts.all_events:,}" if facts.all_events else ""
        sentence = (
            f"{facts.events:,} events{of} in the last hour changed {facts.windows:,} windows that had settled. Gold is exact all the same."
        )
        return [Sign(self.name, "source", "warning", sentence, now - HOUR)]


@dataclass(frozen=True, slots=True)
class QuarantineGrowing:
    """Records of one cause are kept out in greater number than before."""

    name: ClassVar[str] = "quarantine_growing"
    reads: ClassVar[str] = "growing"

    @property
    def threshold(self) -> str:
        return "5 records in 24 h, and twice the mean of the week before; over when they stop, are read again, or dismissed"

    def signs(self, facts: Sequence[GrowingGroup], now: datetime) -> list[Sign]:
        return [
            Sign(
                self.name, f"{one.table} {one.fingerprint}", "warning",
                f"{one.rule} in {one.table}: {one.last_24h:,} records in 24 h, {one.mean_per_day:,.1f} a day before.", now,
            )
            for one in facts
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class FreshnessMissed:
    """Something waits to enter a table for longer than the table's freshness target (`Pipeline.freshness_of`)."""

    name: ClassVar[str] = "freshness_missed"
    reads: ClassVar[str] = "waiting"

    @property
    def threshold(self) -> str:
        return "the freshness target of the table: how long the oldest thing that it has not consumed may wait"

    def signs(self, facts: Sequence[Waiting], now: datetime) -> list[Sign]:
        late = [one for one in facts if one.since is not None and now - one.since > one.target]
        return [
            Sign(
                self.name, one.table, "critical",
                f"{one.table} is not fresh: what came at {clock(one.since)} is not in it; its target is {words(one.target)}.",
                one.since + one.target,
            )
            for one in late
            if one.since is not None
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class DiskNearlyFull:
    """A disk that Assay writes to has little room left."""

    name: ClassVar[str] = "disk_nearly_full"
    reads: ClassVar[str] = "disks"
    share: float = 0.05  # of a small disk
    most: int = 20 * GB  # of a large one: days of logs still fit
    least: int = 1 * GB  # a batch, its shuffle files and a commit need some hundred megabytes at once
    calm: float = 1.2  # room for a fifth more before it is over, so that a batch's own files do not make it come and go

    @property
    def threshold(self) -> str:
        return f"{self.share:.0%} of the disk free, at most {self.most // GB} GB and at least {self.least // GB} GB"

    def signs(self, facts: Sequence[Disk], now: datetime) -> list[Sign]:
        found = []
        for disk in facts:
            limit = max(self.least, min(self.most, self.share * disk.size))
            if disk.free < limit * (self.calm if disk.was_low else 1):
                sentence = f"{disk.place} has {disk.free / GB:,.1f} GB of {disk.size / GB:,.0f} GB left."
                found.append(Sign(self.name, disk.place, "critical", sentence, now))
        return found
