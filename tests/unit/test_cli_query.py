"""`assay query`: the tables by name, read-only, and nothing of the machine around them."""

import csv
import io
import os

import pytest

from spark_jobs.spec.tables import FILES
from tests.builders.assay_command import assay, assay_json
from tests.builders.ops_rows import BRONZE, file_row, record, small_lake, small_settings, write

COUNT = "SELECT event_name, count(*) AS n FROM silver.cloudtrail_events GROUP BY event_name"


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return small_lake(tmp_path_factory.mktemp("lake"))


@pytest.mark.parametrize(
    "sql",
    [
        COUNT,
        f"WITH events AS ({COUNT}) SELECT * FROM events",
        f"\n-- how many\n{COUNT};",
        f"  ({COUNT})  ",
        f"/* how\n many */ -- ?\n{COUNT}",
        COUNT.replace("silver.cloudtrail_events", 'silver."cloudtrail_events"'),
        COUNT.replace("silver.cloudtrail_events", "SILVER.Cloudtrail_Events"),
    ],
)
def test_a_reading_statement_is_answered(lake, sql):
    assert assay_json(lake, "query", sql) == [{"event_name": "RunInstances", "n": 2}]


def test_a_statement_can_come_from_standard_input(lake):
    printed = assay(lake, "query", "-", "--csv", stdin=f"-- how many\n{COUNT}\n").stdout
    assert printed == "event_name,n\nRunInstances,2\n"


def test_tables_can_be_joined(lake):
    tables = "silver.cloudtrail_events s JOIN silver.cloudtrail_events_duplicates d ON d.kept_rid = s._rid"
    sql = f"SELECT s.event_id, d._rid AS again FROM {tables}"
    assert assay_json(lake, "query", sql) == [{"event_id": "event-0", "again": f"{'a' * 32}:2"}]


def test_tables_describe_themselves(lake):
    columns = {row["column_name"] for row in assay_json(lake, "query", "DESCRIBE silver.cloudtrail_events")}
    assert {"event_id", "_rid"} <= columns
    names = [row["name"] for row in assay_json(lake, "query", "show tables")]
    assert "silver.cloudtrail_events" in names
    assert "silver.cloudtrail_events_held" not in names, "it was never written"


def test_explain_is_printed_as_it_is(lake):
    assert "ARROW_SCAN" in assay(lake, "query", f"EXPLAIN {COUNT}").stdout


def test_times_are_utc_and_sums_are_numbers(lake):
    sql = (
        "SELECT min(event_time) AS first, sum(_record_index) AS indexes, current_setting('TimeZone') AS zone FROM silver.cloudtrail_events"
    )
    assert assay_json(lake, "query", sql) == [{"first": "2024-05-01T12:30:00Z", "indexes": 1, "zone": "UTC"}]


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO silver.cloudtrail_events SELECT * FROM silver.cloudtrail_events",
        "WITH x AS (SELECT 1) INSERT INTO silver.cloudtrail_events SELECT * FROM x",
        "DELETE FROM silver.cloudtrail_events",
        "UPDATE silver.cloudtrail_events SET event_id = 'x'",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW silver.cloudtrail_events",
        "COPY silver.cloudtrail_events TO '/tmp/stolen.csv'",
        "ATTACH '/tmp/x.db'",
        "SET enable_external_access = true",
        "PRAGMA enable_profiling",
        "CALL pragma_version()",
        "INSTALL httpfs",
        "EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1",
        "SELECT 1; DROP VIEW silver.cloudtrail_events",
        "",
        "/* a comment alone */",
        "nonsense",
    ],
)
def test_anything_but_one_reading_statement_is_refused(lake, sql):
    said = assay(lake, "query", sql, exit_code=2).stderr
    assert len(said.splitlines()) == 1


def test_files_and_addresses_outside_are_not_read(lake, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("a\nmarmalade\n")
    for source in (
        f"'{secret}'",
        f"read_csv('{secret}')",
        f"read_text('{secret}')",
        f"glob('{tmp_path}/*')",
        "read_csv('https://example.org/x.csv')",
    ):
        result = assay(lake, "query", f"SELECT * FROM {source}", exit_code=2)
        assert "marmalade" not in result.stdout + result.stderr


def test_the_environment_is_not_read(lake, monkeypatch):
    monkeypatch.setitem(os.environ, "ASSAY_MARMALADE", "marmalade")
    assert "marmalade" not in assay(lake, "query", "SELECT getenv('ASSAY_MARMALADE')", exit_code=2).stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("silver.cloudtrail_event", "did you mean silver.cloudtrail_events"),
        ("cloudtrail_events", "did you mean silver.cloudtrail_events"),
        ("gold.cloudtrail_activity", "did you mean gold.cloudtrail_activity_1h"),
        ("nothing_like_it", "SHOW TABLES"),
    ],
)
def test_an_unknown_table_suggests_the_nearest(lake, name, said):
    assert said in assay(lake, "query", f"SELECT * FROM {name}", exit_code=2).stderr


def test_a_table_that_was_never_written_is_said(lake):
    said = assay(lake, "query", "SELECT * FROM silver.cloudtrail_events_held", exit_code=2).stderr
    assert "silver.cloudtrail_events_held has not been written yet" in said


def test_an_unknown_column_is_said_in_one_sentence(lake):
    said = assay(lake, "query", "SELECT nosuch FROM silver.cloudtrail_events", exit_code=2).stderr
    assert 'Referenced column "nosuch" not found' in said
    assert len(said.splitlines()) == 1


def test_csv_can_be_read_back(tmp_path):
    settings = small_settings(tmp_path)
    raw = 'a "quoted", text\nwith a new line'
    write(settings, BRONZE, record(settings, "a.gz", 0, BRONZE, raw=raw))
    printed = assay(settings, "query", "SELECT _record_index, raw, NULL AS nothing FROM bronze.cloudtrail_records", "--csv").stdout
    assert list(csv.reader(io.StringIO(printed))) == [["_record_index", "raw", "nothing"], ["0", raw, ""]]


def test_the_limit_bounds_what_is_printed_and_zero_prints_all(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, FILES, *[file_row(settings, f"{number}.gz") for number in range(120)])
    sql = "SELECT path FROM _ops.files"
    assert len(assay_json(settings, "query", sql)) == 100
    assert len(assay_json(settings, "query", sql, "--limit", "7")) == 7
    assert len(assay_json(settings, "query", sql, "--limit", "0")) == 120
    assert "The first 7 rows" in assay(settings, "query", sql, "--limit", "7").stdout


@pytest.mark.parametrize("words", [(), ("SELECT 1", "--list"), ("SELECT 1", "--json", "--csv"), ("--example", "root_usag")])
def test_an_unclear_question_is_refused(lake, words):
    assert assay(lake, "query", *words, exit_code=2).stderr


def test_a_wrong_example_name_suggests_the_nearest(lake):
    assert "did you mean root_usage" in assay(lake, "query", "--example", "root_usag", exit_code=2).stderr
