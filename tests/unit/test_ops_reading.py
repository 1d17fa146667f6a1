"""What a run asks the `_ops` tables about itself is answered from its own data files, however many others there are."""

from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc
import pytest

from spark_jobs.io.lake import lake_table, rows_that_may
from spark_jobs.io.ops import SCHEMAS, Ops
from spark_jobs.jobs.run import Run
from spark_jobs.jobs.tidy_ops import tidy_ops
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import BOOKS, FILE_OUTCOMES, FILES

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def ops(tmp_path):
    ops = Ops(load_settings(home=tmp_path, lake=str(tmp_path / "a lake with % and spaces")))
    for number in range(30):
        decision = "release" if number == 17 else None
        ops.append(
            BOOKS, [{"table": "silver.x", "batch_id": f"v1-{number:08d}", "run_id": "it's", "decision": decision, "finished_at": AT}]
        )
        outcome = "failed" if number == 3 else "ok"
        ops.append(FILE_OUTCOMES, [{"pipeline": "x", "file_id": f"{number:032x}", "outcome": outcome, "batch_id": f"v1-{number:08d}"}])
    return ops


def files(ops, table, **asked):
    return rows_that_may(
        lake_table(ops._settings, table), SCHEMAS[table], asked.get("equal", {}), asked.get("present", ()), asked.get("since")
    ).files


@pytest.mark.parametrize(
    ("table", "asked"),
    [
        (BOOKS, {"equal": {"table": "silver.x", "batch_id": "v1-00000007"}}),
        (BOOKS, {"equal": {"run_id": "it's"}, "present": ["decision"]}),
        (FILE_OUTCOMES, {"equal": {"outcome": "failed", "pipeline": "x"}}),
        (FILE_OUTCOMES, {"equal": {"batch_id": "v1-00000029"}}),
    ],
)
def test_one_row_of_many_commits_is_found_in_one_file(ops, table, asked):
    rows = ops.read(table, **asked)
    assert rows.num_rows == 1 and len(files(ops, table, **asked)) == 1
    filters = [pc.field(name) == value for name, value in asked.get("equal", {}).items()]
    filters += [pc.field(name).is_valid() for name in asked.get("present", ())]
    whole = ops.read(table)
    for one in filters:
        whole = whole.filter(one)
    assert rows.equals(whole)


def test_what_is_not_there_is_an_empty_table_of_the_declared_columns(ops):
    found = ops.read(BOOKS, ["batch_id", "finished_at"], equal={"batch_id": "v9-00000000"})
    assert found.num_rows == 0 and found.schema.names == ["batch_id", "finished_at"]
    assert ops.read(BOOKS, ["read"], equal={"read": 5}).num_rows == 0


def test_a_filter_goes_together_with_what_must_be_equal(ops):
    assert ops.read(BOOKS, filter=pc.field("decision").is_null(), equal={"batch_id": "v1-00000017"}).num_rows == 0
    assert ops.read(BOOKS, filter=pc.field("finished_at") >= AT, equal={"batch_id": "v1-00000017"}).num_rows == 1


def test_what_is_recent_is_found_in_recent_files_alone(ops):
    """A bound in the log is cut to the millisecond; the newest instant itself must be found all the same."""
    late = AT + timedelta(hours=1, microseconds=999)
    ops.append(BOOKS, [{"table": "silver.x", "batch_id": "late", "finished_at": late}, {"table": "silver.x", "batch_id": "x"}])
    assert ops.read(BOOKS, ["batch_id"], since={"finished_at": late}).to_pylist() == [{"batch_id": "late"}]
    assert len(files(ops, BOOKS, since={"finished_at": late})) == 1
    assert ops.read(BOOKS, since={"finished_at": AT}).num_rows == 31


def test_tables_of_many_small_files_are_joined_without_a_change_of_their_rows(ops):
    run = Run(ops._settings, load_pipeline("cloudtrail"), "r")
    before = ops.read(BOOKS).sort_by("batch_id")
    ops.append(FILES, [{"path": "a"}])
    ops.append(FILES, [{"path": "b"}])
    assert tidy_ops(run, most=30) == []
    assert tidy_ops(run, most=25) == [FILE_OUTCOMES, BOOKS]
    assert len(lake_table(ops._settings, BOOKS).file_uris()) == 1 and ops.read(BOOKS).sort_by("batch_id").equals(before)
    assert len(lake_table(ops._settings, FILES).file_uris()) == 2, "one file of the ledger is one bounded batch"
