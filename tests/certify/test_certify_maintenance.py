"""A hundred hourly runs beside maintenance that never rests."""

from spark_jobs.io import maintenance_files
from tests.builders.maintenance import run_hours_beside

HOURS = 100


def test_a_hundred_hourly_runs_beside_maintenance_do_not_fail_and_end_in_the_same_tables(tmp_path, spark, monkeypatch, say):
    monkeypatch.setattr(maintenance_files, "FEW_FILES", 1)
    beside = run_hours_beside(HOURS, tmp_path, spark)
    assert len(beside.joined()) >= HOURS
    say(f"{HOURS} hourly runs beside {len(beside.done)} rounds of maintenance, which joined days {len(beside.joined())} times")
