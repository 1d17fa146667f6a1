"""Window arithmetic for gold, in plain integers (epoch seconds, UTC): which windows an instant is in, and which were touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_jobs.spec.errors import ConfigurationFault

BUCKET_S = 300  # the grain in which touched instants are gathered; every window start and end lies on it


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """A tumbling (slide = length) or sliding window, both in seconds and whole multiples of BUCKET_S."""

    length_s: int
    slide_s: int

    def __post_init__(self) -> None:
        if self.length_s % self.slide_s or self.slide_s % BUCKET_S or self.slide_s <= 0:
            raise ConfigurationFault(
                f"A window of {self.length_s} s every {self.slide_s} s is impossible: the slide must divide the length and be a "
                f"multiple of {BUCKET_S} s."
            )

    @property
    def windows_per_event(self) -> int:
        return self.length_s // self.slide_s

    def starts_for(self, bucket: int) -> range:
        """The starts of all windows that contain the bucket beginning at `bucket`."""
        last = bucket - bucket % self.slide_s
        return range(last - self.length_s + self.slide_s, last + 1, self.slide_s)

    def touched(self, buckets: Iterable[int]) -> list[int]:
        """Sorted starts of all windows that contain any of the buckets."""
        return sorted({start for bucket in buckets for start in self.starts_for(bucket)})

    def expected_sum(self, starts: Iterable[int], counts: Mapping[int, int]) -> int:
        """How many (event, window) pairs the windows hold, given the number of events in each bucket."""
        return sum(counts.get(bucket, 0) for start in starts for bucket in range(start, start + self.length_s, BUCKET_S))


def ranges(starts: Iterable[int], length_s: int) -> list[tuple[int, int]]:
    """Merge windows [start, start+length) into disjoint half-open ranges, sorted."""
    return merged((start, start + length_s) for start in starts)


def merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Half-open ranges as disjoint ones that cover the same, sorted."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
