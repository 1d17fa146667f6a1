"""The accounting itself: each way of losing, doubling or changing a record is found by it."""

import shutil

import pytest
from deltalake import DeltaTable, write_deltalake

from tests.builders.accounting import assert_every_record_accounted_for
from tests.builders.corpus import FOLDER, good_file
from tests.builders.stack import Stack

BRONZE, EVENTS = "bronze.cloudtrail_records", "silver.cloudtrail_events"


@pytest.fixture(scope="module")
def whole(tmp_path_factory, spark):
    """A lake with good, quarantined, refused, repeated and unreadable input, all accounted for."""
    stack = Stack(tmp_path_factory.mktemp("whole"), spark, gates=False)
    stack.land(f"{FOLDER}/a.json.gz", good_file(1, 2) + good_file(3, eventID=...) + good_file(1))
    stack.land(f"{FOLDER}/b.json.gz", good_file(4)[:-6])
    stack.land(f"{FOLDER}/c.json", b'{"Records":[garbage]}')
    stack.land(f"{FOLDER}/notes.txt", b"x")
    stack.discover()
    assert stack.run() is None
    accounted = assert_every_record_accounted_for(stack)
    assert (accounted.silver, accounted.quarantined, accounted.duplicate, accounted.bronze_quarantined, accounted.files_failed) == (
        2,
        1,
        1,
        1,
        1,
    )
    return stack


@pytest.fixture
def tampered(whole, tmp_path):
    """A copy of it to tamper with."""
    shutil.copytree(whole.folder / "lake", tmp_path / "lake")
    copy = Stack(tmp_path)
    copy.landing = whole.landing
    return copy


def _table(stack, name):
    layer, _, table = name.partition(".")
    return DeltaTable(f"{stack.settings.lake_root}/{layer}/{table}")


def _delete(name, where):
    return lambda stack: _table(stack, name).delete(where)


def _update(name, where, **new):
    return lambda stack: _table(stack, name).update(predicate=where, updates=new)


def _double(name):
    def double(stack):
        table = _table(stack, name)
        write_deltalake(table, table.to_pyarrow_table().slice(0, 1), mode="append")

    return double


TAMPERINGS = {
    "a bronze record is lost": _delete(BRONZE, "_record_index = 0"),
    "a bronze record is doubled": _double(BRONZE),
    "a bronze record is another one": _update(BRONZE, "_record_index = 0", raw="""'{"eventID":"x"}'"""),
    "a refused piece is lost": _delete(f"{BRONZE}_quarantine", "true"),
    "a refused piece has no reason": _update(f"{BRONZE}_quarantine", "true", reason="''"),
    "an event is lost": _delete(EVENTS, "_record_index = 1"),
    "an event is published twice": _double(EVENTS),
    "an event has another time": _update(EVENTS, "_record_index = 1", event_time="event_time + interval '1 second'"),
    "a quarantined record is lost": _delete(f"{EVENTS}_quarantine", "true"),
    "a quarantined record has other text": _update(f"{EVENTS}_quarantine", "true", raw="'{}'"),
    "a re-delivery is lost": _delete(f"{EVENTS}_duplicates", "true"),
    "a re-delivery names nothing that was kept": _update(f"{EVENTS}_duplicates", "true", kept_rid="'x:0'"),
    "a re-delivery is wrongly called conflicting": _update(f"{EVENTS}_duplicates", "true", is_conflicting="not is_conflicting"),
    "a file has no outcome": _delete("_ops.file_outcomes", "outcome = 'failed'"),
    "a file failed without a reason": _update("_ops.file_outcomes", "outcome = 'failed'", reason="null"),
    "a file's records are miscounted": _update("_ops.file_outcomes", "records = 4", records="5"),
    "an object is ignored without a reason": _update("_ops.files", "state = 'ignored'", reason="null"),
    "an object is not in the ledger": _delete("_ops.files", "state = 'ignored'"),
    "the books say one more": _update("_ops.books", "layer = 'silver'", written="written + 1"),
    "books do not balance": _update("_ops.books", "layer = 'bronze'", is_balanced="false"),
    "books of a batch are missing": _delete("_ops.books", "layer = 'silver'"),
    "a window is lost": _delete("gold.cloudtrail_activity_1h", "true"),
    "a window counts one more": _update("gold.cloudtrail_principal_activity_1h", "true", denied_count="denied_count + 1"),
}


@pytest.mark.parametrize("tamper", TAMPERINGS.values(), ids=TAMPERINGS)
def test_the_accounting_finds_it_when(tampered, tamper):
    assert_every_record_accounted_for(tampered)
    tamper(tampered)
    with pytest.raises(AssertionError):
        assert_every_record_accounted_for(tampered)
