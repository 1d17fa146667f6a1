"""Where a run's report lies. Run ids are other people's text: whatever they hold, the folder is below the pipeline's own."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from spark_jobs.spec.settings import Settings

_LONGEST = 100  # characters; file systems take 255 bytes, a person reads fewer


def safe_name(run_id: str) -> str:
    """A folder name for a run id: readable, no path in it, and different for different ids (a digest follows whatever was changed)."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", run_id).strip("_")[:_LONGEST]
    if plain and plain == run_id:
        return plain
    digest = hashlib.blake2b(run_id.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{plain or 'run'}-{digest}"


def report_folder(settings: Settings, pipeline: str, run_id: str) -> Path:
    """`<reports>/<pipeline>/<run>`; holds index.html, report.json and summary.json."""
    return settings.reports_root / pipeline / safe_name(run_id)
