"""A corpus of bad input in one landing folder, through the real jobs: what is good is published in the same run, what is bad is named."""

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.builders.accounting import Accounted, assert_every_record_accounted_for
from tests.builders.corpus import BAD_FILES, FOLDER, IGNORED, good_file
from tests.builders.events import event
from tests.builders.rights import AS_A_USER
from tests.builders.stack import Stack

A_YEAR_AGO = 1_650_000_000


@dataclass
class TwoRuns:
    """The stack after the first run and after the second, with what the first run said and left."""

    stack: Stack
    said: list[str]
    first: dict[str, list[dict]]
    first_accounted: Accounted
    second_accounted: Accounted

    def rows(self, table: str, name: str) -> list[dict]:
        """Rows of a table after the first run that came from one file."""
        of = "path" if table.startswith("_ops") else "_source_file"
        return [row for row in self.first[table] if row[of].endswith(f"/{name}")]


TABLES = (
    "_ops.files", "_ops.file_outcomes", "bronze.cloudtrail_records", "bronze.cloudtrail_records_quarantine", "silver.cloudtrail_events",
    "silver.cloudtrail_events_quarantine", "silver.cloudtrail_events_duplicates",
)  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory, spark):
    """First run: the corpus beside the sample, in a process of its own. Second run: what healed, what was rewritten, re-deliveries."""
    stack = Stack(tmp_path_factory.mktemp("corpus"), spark)
    stack.land_sample()
    for bad in BAD_FILES:
        stack.land(bad.path, bad.stored)
    for name in IGNORED:
        stack.land(f"{FOLDER}/{name}", b"x")
    os.utime(stack.landing / FOLDER / "old_time.json.gz", (A_YEAR_AGO, A_YEAR_AGO))
    vanishing = stack.land(f"{FOLDER}/vanishing.json.gz", good_file(1))
    locked = stack.land(f"{FOLDER}/locked.json.gz", good_file(2, 3))
    rewritten = stack.land(f"{FOLDER}/rewritten.json.gz", good_file(4))
    growing = stack.land(f"{FOLDER}/growing.json.gz", good_file(6)[:100])
    locked.chmod(0)
    stack.discover()
    vanished = vanishing.read_bytes(), vanishing.stat().st_mtime_ns
    vanishing.unlink()
    rewritten.write_bytes(good_file(4, 5))
    growing.write_bytes(good_file(6))
    done = stack.job("run_layers", under=AS_A_USER)
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()
    first = {table: stack.rows(table) for table in TABLES}
    first_accounted = assert_every_record_accounted_for(stack, unlisted=(rewritten, growing))

    locked.chmod(0o644)
    vanishing.write_bytes(vanished[0])
    os.utime(vanishing, ns=(vanished[1], vanished[1]))
    stack.land(f"{FOLDER}/again.json.gz", good_file(2, 4))  # 2 arrives in this run for the first time, 4 too
    stack.land(f"{FOLDER}/later.json.gz", good_file(7) + good_file(8, errorCode="AccessDenied"))
    _an_hour_later(stack)
    stack.discover()
    assert stack.run() is None
    return TwoRuns(stack, said, first, first_accounted, assert_every_record_accounted_for(stack))


def _an_hour_later(stack):
    stack.clock = lambda: datetime.now(UTC) + timedelta(hours=1)


@pytest.mark.parametrize("bad", BAD_FILES, ids=lambda bad: bad.name)
def test_what_is_good_beside_it_is_published_and_what_is_bad_is_named(runs, bad):
    outcome = _one(runs.rows("_ops.file_outcomes", bad.name))
    assert (outcome["outcome"], outcome["rule"]) == (("failed", bad.rule) if bad.rule else ("ok", None))
    assert bad.reason in (outcome["reason"] or "") and bad.note in (outcome["notes"] or "")
    assert outcome["heals"] is bad.heals
    events = runs.rows("silver.cloudtrail_events", bad.name)
    assert sorted(row["event_id"] for row in events) == sorted(bad.published)
    assert _rules(runs.rows("silver.cloudtrail_events_quarantine", bad.name)) == dict(bad.quarantined)
    assert _rules(runs.rows("bronze.cloudtrail_records_quarantine", bad.name)) == dict(bad.refused)
    repeated = runs.rows("silver.cloudtrail_events_duplicates", bad.name)
    assert {row["_record_index"]: row["is_conflicting"] for row in repeated} == dict(bad.repeated)
    rescued = {row["_record_index"]: json.loads(row["_rescued"]) for row in events if row["_rescued"]}
    assert rescued == dict(bad.rescued)


@pytest.mark.parametrize("bad", [bad for bad in BAD_FILES if bad.rule or bad.note or bad.refused], ids=lambda bad: bad.name)
def test_the_run_says_in_one_line_what_was_wrong_with_a_file(runs, bad):
    lines = [line for line in runs.said if f"/{bad.name}:" in line]
    assert len(lines) == 1
    assert bad.reason in lines[0] and bad.note in lines[0]
    assert all(rule in lines[0] for rule in bad.refused.values())


def test_the_run_says_in_one_line_how_many_records_broke_which_rule(runs):
    rules = [rule for bad in BAD_FILES for rule in bad.quarantined.values()]
    line = _one([line for line in runs.said if "silver.cloudtrail_events" in line and "quarantined:" in line])
    for rule in set(rules):
        assert f"{rules.count(rule)} {rule}" in line
    assert not any("Traceback" in line or line.lstrip().startswith("at ") for line in runs.said)


@pytest.mark.parametrize(("name", "reason"), IGNORED.items())
def test_an_object_that_is_no_log_is_in_the_ledger_with_the_reason(runs, name, reason):
    entry = _one(runs.rows("_ops.files", name))
    assert entry["state"] == "ignored" and reason in entry["reason"]
    assert runs.rows("_ops.file_outcomes", name) == []


@pytest.mark.parametrize(
    ("name", "rule"), [("vanishing", "vanished"), ("locked", "unreadable"), ("rewritten", "changed"), ("growing", "changed")]
)
def test_a_file_that_could_not_be_read_as_listed_is_read_when_it_can_be(runs, name, rule):
    outcome = _one(runs.rows("_ops.file_outcomes", f"{name}.json.gz"))
    assert (outcome["outcome"], outcome["rule"], outcome["heals"]) == ("failed", rule, True)
    assert _one([line for line in runs.said if f"/{name}.json.gz:" in line])
    assert runs.rows("bronze.cloudtrail_records", f"{name}.json.gz") == []
    later = [row for row in runs.stack.rows("_ops.file_outcomes") if row["path"].endswith(f"/{name}.json.gz") and row["outcome"] == "ok"]
    assert _one(later)["records"] == {"vanishing": 1, "locked": 2, "rewritten": 2, "growing": 1}[name]


def test_an_event_that_comes_again_in_a_later_run_is_recorded_with_the_one_that_was_kept(runs):
    silver = {row["event_id"]: row for row in runs.stack.rows("silver.cloudtrail_events", ["event_id", "_source_file", "_rid"])}
    for number in range(1, 9):
        assert event(number)["eventID"] in silver
    again = [
        row
        for row in runs.stack.rows("silver.cloudtrail_events_duplicates")
        if row["event_id"] in (event(2)["eventID"], event(4)["eventID"])
    ]
    assert {Path(row["_source_file"]).name for row in again} == {"locked.json.gz", "rewritten.json.gz"}
    assert all(row["kept_rid"] == silver[row["event_id"]]["_rid"] for row in again)


def test_the_whole_corpus_is_accounted_for(runs):
    assert runs.first_accounted == Accounted(
        files_ok=36 + sum(not bad.rule for bad in BAD_FILES),
        files_failed=sum(bool(bad.rule) for bad in BAD_FILES) + 4,
        files_ignored=len(IGNORED),
        proven_files=runs.first_accounted.proven_files,
        records=2092 + sum(_records(bad) for bad in BAD_FILES),
        bronze=2092 + sum(_records(bad) - len(bad.refused) for bad in BAD_FILES),
        bronze_quarantined=sum(len(bad.refused) for bad in BAD_FILES),
        bronze_held=0,
        silver=2092 + sum(len(bad.published) for bad in BAD_FILES),
        quarantined=sum(len(bad.quarantined) for bad in BAD_FILES),
        duplicate=sum(len(bad.repeated) for bad in BAD_FILES),
        held=0,
        gold_windows=runs.first_accounted.gold_windows,
    )
    # All but the two with records that are no JSON text, and the one too deep for Python's reader, were read a second way.
    assert runs.first_accounted.proven_files >= runs.first_accounted.files_ok - 3
    assert runs.second_accounted.silver == runs.first_accounted.silver + 8


def _records(bad):
    return len(bad.published) + len(bad.quarantined) + len(bad.refused) + len(bad.repeated)


def _rules(rows):
    for row in rows:
        assert row["reason"]
    return {row["_record_index"]: row["rule"] for row in rows}


def _one(rows):
    assert len(rows) == 1, rows
    return rows[0]
