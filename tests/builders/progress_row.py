"""A row of `_ops.progress` whose defaults are a valid batch of silver."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any


def progress_row(at: datetime, **changes: Any) -> dict[str, Any]:
    """A batch of two seconds that ended at that instant."""
    row = {
        "pipeline": "cloudtrail", "table": "silver.cloudtrail_events", "run_id": "r", "batch_id": "v1-00000003", "mode": "continuous",
        "input_rows": 500, "input_rows_per_s": 50.0, "processed_rows_per_s": 250.0, "duration_ms": 2000,
        "phases": json.dumps({"addBatch": 1500, "walCommit": 300, "commitOffsets": 200, "triggerExecution": 2000}),
        "batch_bytes": 1_000_000, "batch_limit": 64_000_000, "lag_files": 2, "lag_bytes": 4096, "lag_minutes": 1.5, "state_rows": 0,
        "state_bytes": 0, "source_version": 7, "target_version": 5, "targets": json.dumps({"silver.cloudtrail_events": 5}),
        "newest_event_at": at - timedelta(minutes=3), "host": "vm", "pid": 1, "started_at": at - timedelta(seconds=2), "at": at,
        "day": at.date(),
    }  # fmt: skip
    assert set(changes) <= set(row), "no such column"
    return row | changes
