"""A hundred hourly runs beside maintenance that never rests."""

from spark_jobs.io import maintenance_files
from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.increments import published
from tests.builders.maintenance import WithoutRest, land_hour
from tests.builders.stack import Stack

HOURS = 100


def test_a_hundred_hourly_runs_beside_maintenance_do_not_fail_and_end_in_the_same_tables(tmp_path, spark, monkeypatch, say):
    monkeypatch.setattr(maintenance_files, "FEW_FILES", 1)
    busy, calm = (Stack(tmp_path / name, spark, batch_files=2, gates=False) for name in ("busy", "calm"))
    with WithoutRest(busy) as beside:
        for hour in range(HOURS):
            land_hour(hour, busy, calm)
            busy.discover()
            assert busy.run() is None
    assert len(beside.joined()) >= HOURS
    assert_every_record_accounted_for(busy)
    calm.discover()
    assert calm.run() is None
    assert published(busy) == published(calm)
    say(f"{HOURS} hourly runs beside {len(beside.done)} rounds of maintenance, which joined days {len(beside.joined())} times")
