"""`assay doctor` against what a real restart does: the changes that are safe, those that are not, and what a rebuild makes of them.

`make certify` has the whole matrix with data arriving after each (tests/certify/test_certify_doctor.py).
"""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_jobs.cli.main import app
from spark_jobs.io.lease import Leases
from spark_jobs.jobs.doctor import SAFE, WITH_OPTION
from tests.builders.damages import (
    LAYERS,
    assert_as_undisturbed,
    checkpoint,
    die_at,
    die_inside_a_version,
    metadata,
    move_lake,
    read_anew,
    refuses,
    remove_table,
    restore_table,
    run_and_rebuild,
    to_rebuild,
    verdicts,
)

BRONZE, SILVER, GOLD = map(str, LAYERS.values())


def test_a_lake_that_is_whole_is_safe_and_so_is_one_that_was_moved(scene):
    said = verdicts(scene.finished)
    assert {verdict for verdict, _ in said.values()} == {SAFE}
    assert said[SILVER][1] == f"Batches up to 1 are finished; it goes on from version 3 of {BRONZE}."
    moved = scene.copy("doctor_moved", of=scene.finished)
    move_lake(moved)
    assert {verdict for verdict, _ in verdicts(moved).values()} == {SAFE}
    assert moved.run() is None
    assert_as_undisturbed(moved, scene.undisturbed)


def test_state_that_a_first_batch_has_fixed_and_a_writer_at_work_are_safe_with_an_option(scene):
    """No query of Assay keeps state: one that did would be bound to the partitions of its first batch, which the doctor reads."""
    stack = scene.copy("doctor_state", of=scene.finished)
    (checkpoint(stack, "silver") / "state").mkdir()
    engine = checkpoint(stack, "bronze") / "engine.json"
    engine.write_text(json.dumps(json.loads(engine.read_text()) | {"spark": "99.1.0"}))
    with Leases(stack.settings, [LAYERS["gold"], *stack.pipeline.gold_tables_of("hourly")], "another run"):
        said = verdicts(stack)
    assert [said[query][0] for query in (BRONZE, SILVER, GOLD)] == [WITH_OPTION] * 3
    assert "ran with Spark 99.1.0 last" in said[BRONZE][1]
    assert "in 1 partitions" in said[SILVER][1] and "spark.sql.shuffle.partitions=1" in said[SILVER][1]
    assert "is being written by another run" in said[GOLD][1]


def _dead_before_bronze_commits(stack):
    die_at(stack, "bronze", "append_once")
    metadata(stack, "bronze")


def _dead_after_silver_committed(stack):
    die_at(stack, "silver", "write_books")
    metadata(stack, "silver")


def _dead_inside_a_version(stack):
    die_inside_a_version(stack)
    metadata(stack, "silver")


DAMAGES = [_dead_before_bronze_commits, _dead_after_silver_committed, _dead_inside_a_version, read_anew]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_rebuild_in_the_middle_of_a_batch_loses_and_doubles_nothing(scene, damage):
    """Side tables written and the main one not; committed and not in the checkpoint; begun inside a version; files half taken."""
    stack = scene.copy(f"doctor{damage.__name__}")
    damage(stack)
    for query, reason in to_rebuild(stack).items():
        refuses(stack, query, reason)
    assert len(run_and_rebuild(stack)) == 1
    assert_as_undisturbed(stack, scene.undisturbed)


def test_silver_set_back_under_gold_is_refused_by_both_and_read_again(scene):
    stack = scene.copy("doctor_set_back", of=scene.finished)
    restore_table(stack, LAYERS["silver"])
    assert list(to_rebuild(stack)) == [SILVER, GOLD]
    for query, reason in to_rebuild(stack).items():
        refuses(stack, query, reason)
    assert run_and_rebuild(stack) == [SILVER, GOLD]
    assert_as_undisturbed(stack, scene.undisturbed)
    assert len(list((Path(stack.settings.lake) / "_set_aside").iterdir())) == 3


def test_the_command_says_it_and_mends_it(scene, monkeypatch):
    stack = scene.copy("doctor_command", of=scene.finished)
    for name in ("lake", "home", "landing"):
        monkeypatch.setenv(f"ASSAY_{name.upper()}", str(getattr(stack.settings, name)))
    assistant = CliRunner()
    assert assistant.invoke(app, ["doctor", "--checkpoints-only"]).exit_code == 0
    metadata(stack, "silver")
    shown = assistant.invoke(app, ["doctor", "--checkpoints-only", "--json"])
    rows = {row["query"]: row for row in json.loads(shown.stdout)["checkpoints"]}
    assert shown.exit_code == 4
    assert rows[SILVER]["verdict"] == "needs rebuild" and rows[BRONZE]["verdict"] == "safe"
    assert rows[SILVER]["evidence"]["position"] == {"version": 3, "index": -1}
    refused = assistant.invoke(app, ["doctor", "--rebuild", SILVER], input="n\n")
    assert refused.exit_code == 1 and not checkpoint(stack, "silver").with_name("v2").exists()
    with Leases(stack.settings, [LAYERS["bronze"]], "a run of bronze"):  # other tables go on meanwhile
        mended = assistant.invoke(app, ["doctor", "--rebuild", SILVER, "--yes"])
    assert mended.exit_code == 0
    assert f"{SILVER} goes on from version 3 of {BRONZE}, after batch v1-00000001." in mended.stdout
    assert assistant.invoke(app, ["doctor", "--checkpoints-only"]).exit_code == 0
    assert assistant.invoke(app, ["doctor", "--rebuild", "silver.nothing", "--yes"]).exit_code == 2
    with Leases(stack.settings, [LAYERS["silver"]], "another run"):
        assert assistant.invoke(app, ["doctor", "--rebuild", SILVER, "--yes"]).exit_code == 3


def test_a_table_that_is_gone_is_read_again_and_its_gold_with_it(scene):
    stack = scene.copy("doctor_removed", of=scene.finished)
    remove_table(stack, LAYERS["silver"])
    assert list(to_rebuild(stack)) == [SILVER, GOLD]
    assert run_and_rebuild(stack) == [SILVER, GOLD, GOLD]  # the clock of gold counts in silver's versions, and silver is a new table
    assert_as_undisturbed(stack, scene.undisturbed)
