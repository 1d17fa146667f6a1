"""`_ops.progress` stays cheap: what is recent is read from the files that may hold it, and old days leave by whole files."""

from datetime import UTC, datetime, timedelta

from spark_jobs.io import lake
from spark_jobs.io.lake import lake_table
from spark_jobs.io.progress_store import ProgressStore
from spark_jobs.jobs.maintain import maintain
from spark_jobs.jobs.run import Run
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.tables import MAINTENANCE, PROGRESS
from tests.builders.ops_rows import small_settings
from tests.builders.progress_row import progress_row

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def test_recent_rows_are_read_without_the_files_of_older_ones(tmp_path, monkeypatch):
    settings = small_settings(tmp_path)
    store = ProgressStore(settings)
    for hours in range(10, -1, -1):
        store.append(
            [progress_row(NOW - timedelta(hours=hours), batch_id=f"h-{hours}"), progress_row(NOW, pipeline="other")][: 1 + (hours == 0)]
        )
    opened = []
    whole = lake.rows_of_files
    monkeypatch.setattr(lake, "rows_of_files", lambda table, schema, names: opened.extend(names) or whole(table, schema, names))
    rows = store.since(NOW - timedelta(hours=2), "cloudtrail", ["batch_id"]).to_pylist()
    assert [row["batch_id"] for row in rows] == ["h-2", "h-1", "h-0"]
    assert len(opened) == 3


def test_maintenance_removes_days_beyond_the_setting_and_joins_the_others(tmp_path):
    settings = small_settings(tmp_path).model_copy(update={"progress_days": 30})
    store = ProgressStore(settings)
    for days in (40, 31, 30, 1, 0):
        for number in range(8):
            store.append([progress_row(NOW - timedelta(days=days, minutes=number), batch_id=f"d{days}-{number}")])
    maintain(Run(settings, load_pipeline("cloudtrail"), "night", lambda: NOW))
    left = {row["batch_id"].split("-")[0] for row in store.since(NOW - timedelta(days=100)).to_pylist()}
    assert left == {"d30", "d1", "d0"}
    assert store.since(NOW - timedelta(days=100)).num_rows == 24
    assert len(lake_table(settings, PROGRESS).file_uris()) == 3  # a file for a day
    said = lake_table(settings, MAINTENANCE).to_pyarrow_table().to_pylist()
    assert any("16 files of days older than 30 left the table" in row["sentence"] for row in said)
    assert store.remove_old(NOW) == ""
