"""The shipped sample of real CloudTrail files, read without the engine."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

SAMPLE = Path(__file__).parents[2] / "infra" / "sample" / "cloudtrail"


@cache
def sample_texts() -> tuple[str, ...]:
    """The 2,092 records as compact JSON text, which is how the files have them (a test of bronze proves that byte for byte)."""
    return tuple(json.dumps(record, separators=(",", ":"), ensure_ascii=False) for record in sample_events())


@cache
def sample_events() -> tuple[dict[str, Any], ...]:
    files = sorted(SAMPLE.rglob("*.json.gz"))
    return tuple(record for file in files for record in json.loads(gzip.decompress(file.read_bytes()))["Records"])
