"""CloudTrail files as they would land now: records of this minute, under names and ids that never repeat."""

from __future__ import annotations

import gzip
import os
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.reference_set import ACCOUNTS, REGIONS, LiveRecords


class LiveFiles:
    """`land(records)` puts one whole file into the landing folder and returns its path and the instant (epoch seconds) it was there."""

    def __init__(self, landing: Path, outside: Path) -> None:
        self._landing, self._outside, self._count = landing, outside, 0
        self._records = LiveRecords()
        outside.mkdir(parents=True, exist_ok=True)
        landing.mkdir(parents=True, exist_ok=True)

    def land(self, records: int) -> tuple[Path, float]:
        self._count += 1
        now = datetime.now(UTC)
        account, region = ACCOUNTS[self._count % len(ACCOUNTS)], REGIONS[self._count % len(REGIONS)]
        content = f'{{"Records":[{",".join(self._records.of(account, region, now, records))}]}}'.encode()
        name = f"{account}_CloudTrail_{region}_{now:%Y%m%dT%H%MZ}_{self._count:016d}.json.gz"
        place = self._landing / f"AWSLogs/{account}/CloudTrail/{region}/{now:%Y/%m/%d}" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        whole = self._outside / name
        whole.write_bytes(gzip.compress(content, compresslevel=1))
        os.rename(whole, place)  # a look never sees half of it
        return place, datetime.now(UTC).timestamp()
