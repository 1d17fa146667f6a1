"""A ledger of millions of files, as years of hourly looks leave it: `large_ledger.py make <lake> <files>`, `large_ledger.py ask <lake>`.

`ask` does what discover does with the ledger: compare a listing with the rows of one date (hourly), and with all rows (sweep).
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from spark_jobs.io import ledger
from spark_jobs.io.lake import lake_table
from spark_jobs.io.ledger_files import ledger_rows
from spark_jobs.io.ops import CONFIGURATION, SCHEMAS
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import FILES

DAYS = 1095  # three years
FIRST = date(2021, 1, 1)
ROWS_PER_COMMIT = 100_000  # in data files of ASSAY_BATCH_FILES rows each, as a sweep of much history writes them


def make(lake: str, files: int) -> None:
    settings = load_settings(lake=lake, batch_mb=4096)
    DeltaTable.create(settings.location(FILES), SCHEMAS[FILES], configuration=CONFIGURATION)
    rows: list[dict[str, Any]] = []
    for row in _rows(files):
        rows.append(row)
        if len(rows) == ROWS_PER_COMMIT:
            ledger._commit(settings, lake_table(settings, FILES), rows)
            rows = []
    if rows:
        ledger._commit(settings, lake_table(settings, FILES), rows)


def ask(lake: str) -> dict[str, Any]:
    """Wall seconds for one date and for all dates, and how many of 1,000 listed objects were known (half of them are)."""
    settings = load_settings(lake=lake)
    day = FIRST + timedelta(days=DAYS // 2)
    said: dict[str, Any] = {}
    for name, dates in (("one_date_s", {day}), ("all_dates_s", None)):
        began = time.monotonic()
        known = ledger_rows(lake_table(settings, FILES), dates)  # type: ignore[arg-type]  # a set is invariant
        listed = [*known["file_id"].slice(0, 500).to_pylist(), *(_file_id(-1 - number) for number in range(500))]
        found = pc.sum(pc.is_in(pa.array(listed), value_set=known["file_id"].combine_chunks())).as_py()
        said[name] = time.monotonic() - began
        said[f"{name}_known"] = found
        said["rows"] = known.num_rows
    return said


def _rows(files: int) -> Iterator[dict[str, Any]]:
    at = datetime(2024, 1, 1, tzinfo=UTC)
    for number in range(files):
        day = FIRST + timedelta(days=number * DAYS // files)
        account, name = f"{number % 40:012d}", _file_id(number)
        path = f"/landing/AWSLogs/{account}/CloudTrail/us-east-1/{day:%Y/%m/%d}/{account}_CloudTrail_us-east-1_{name[:16]}.json.gz"
        yield {
            "pipeline": "cloudtrail", "path": path, "size": 7000, "version": str(1_700_000_000_000_000_000 + number), "file_id": name,
            "modified_at": at, "prefix_date": day, "attempt": 1, "state": "listed", "admitted": "live", "listed_at": at, "run_id": "bench",
        }  # fmt: skip


def _file_id(number: int) -> str:
    return hashlib.blake2b(str(number).encode(), digest_size=16).hexdigest()


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], int(sys.argv[3]))
    else:
        print(json.dumps(ask(sys.argv[2])))
