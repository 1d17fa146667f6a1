"""How many bytes a micro-batch should take: large while its query is behind, small when it has caught up."""

from __future__ import annotations

from dataclasses import dataclass

FULL = 0.75  # a batch this close to the limit was ended by it: there is more
BEHIND = 3.0  # triggers that a batch may take while behind: its fixed cost of about 2 s is then a tenth at the 10 s trigger
STEP = 2.0  # at most so much larger or smaller from one batch to the next: one slow batch is no trend
TELLING = 8  # a batch of less than an eighth of the limit is mostly fixed cost, and says nothing about the rate


@dataclass
class BatchSize:
    """The limit of a query's next batch, from how long the ones before it took.

    A full batch moves the limit to what takes one trigger; the second full one in a row shows that the query is behind, and moves it to
    what takes three. A batch that is not full shows that it has caught up: the limit goes down to what takes one trigger at the measured
    rate, and stays where it is when that is more. Never below `least` nor above `most` (bytes).
    """

    target_s: float
    least: int
    most: int
    limit: int
    rate: float = 0.0  # bytes per second, smoothed
    full_in_a_row: int = 0

    def __post_init__(self) -> None:
        self.limit = self._within(self.limit)

    @property
    def is_behind(self) -> bool:
        return self.full_in_a_row >= 2

    def after(self, size: int, seconds: float, *, is_full: bool | None = None) -> int:
        """The limit for the next batch, after one of `size` bytes that took so long.

        `is_full`: whether the limit ended the batch, where its size does not show it: pieces of a file ledger fill a limit in part.
        """
        seconds = max(seconds, 0.001)
        if size * TELLING >= self.limit:
            self.rate = size / seconds if not self.rate else (self.rate + size / seconds) / 2
        if size and (size >= FULL * self.limit if is_full is None else is_full):
            self.full_in_a_row += 1
            aim = size * self.target_s * (BEHIND if self.is_behind else 1.0) / seconds
            self.limit = self._within(min(STEP * self.limit, max(self.limit / STEP, min(aim, STEP * size))))
        else:
            self.full_in_a_row = 0
            fits = self.rate * self.target_s
            if self.rate and self.limit > fits:
                self.limit = self._within(max(self.limit / STEP, fits))
        return self.limit

    def _within(self, limit: float) -> int:
        return int(min(self.most, max(self.least, limit)))
