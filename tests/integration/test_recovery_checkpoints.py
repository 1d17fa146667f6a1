"""Checkpoints that were deleted or damaged, under the real jobs: refused before any table is written, or harmless and equal in the end."""

import re
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from spark_jobs.spec.errors import CheckpointDamaged, SourceChanged
from spark_jobs.spec.tables import TableId
from tests.builders.damages import (
    LAYERS,
    assert_as_undisturbed,
    checkpoint,
    generation_file,
    metadata,
    newest_commit,
    newest_of_both,
    newest_offsets,
    of_another_table,
    offsets_cut,
    offsets_garbage,
    refuses,
    run_and_rebuild,
    to_rebuild,
    whole,
)
from tests.builders.disturbed import differences, everything

REFUSED = [
    (layer, damage, file)
    for layer in LAYERS
    for damage, file in (
        (whole, "assay.json is missing"),
        (generation_file, "assay.json is missing"),
        (metadata, "metadata is missing"),
        (newest_offsets, r"offsets/\d is missing"),
        (offsets_cut, r"offsets/\d is damaged"),
        (offsets_garbage, r"offsets/\d is damaged"),
        (of_another_table, "belongs to"),
    )
] + [(layer, newest_of_both, r"offsets/\d is missing") for layer in ("bronze", "silver")]


@pytest.mark.parametrize(("layer", "damage", "sentence"), REFUSED, ids=lambda value: getattr(value, "__name__", None))
def test_damage_is_refused_before_anything_is_written_and_mended_by_a_rebuild(scene, layer, damage, sentence):
    """What the doctor says is what the start says, and a checkpoint made from the tables loses and doubles nothing."""
    stack = scene.copy(f"{layer}{damage.__name__}", of=scene.finished)
    damage(stack, layer)
    ((query, reason),) = to_rebuild(stack).items()
    assert query == str(LAYERS[layer])
    assert re.search(sentence, reason)
    assert "othing was written by this run" in reason and str(checkpoint(stack, layer)) in reason
    refuses(stack, query, reason)
    assert run_and_rebuild(stack) == [query]
    assert checkpoint(stack, layer).with_name("v2").is_dir()
    assert_as_undisturbed(stack, scene.undisturbed)
    assert not to_rebuild(stack)


@pytest.mark.parametrize(("layer", "table"), [("bronze", "bronze.cloudtrail_records"), ("silver", "silver.cloudtrail_events")])
def test_a_table_removed_or_restored_under_its_checkpoint_is_refused(scene, layer, table):
    removed = scene.copy(f"{layer}_removed", of=scene.finished)
    shutil.rmtree(removed.settings.location(TableId.parse(table)))
    with pytest.raises(CheckpointDamaged, match=rf"{table} holds batches up to -1, its checkpoint"):
        removed.run(layer)
    assert not Path(removed.settings.location(TableId.parse(table))).exists()

    restored = scene.copy(f"{layer}_restored", of=scene.finished)
    location = Path(restored.settings.location(TableId.parse(table)))
    newest = DeltaTable(location).version()
    DeltaTable(location).restore(0)
    with pytest.raises(CheckpointDamaged, match=rf"{table} ends with batch v1-00000000 .* restored to an older version"):
        restored.run(layer)
    assert DeltaTable(location).version() == newest + 1

    # What the sentence says to do works.
    (location / "_delta_log" / f"{newest + 1:020d}.json").unlink()
    assert restored.run() is None
    assert not differences(everything(restored), scene.undisturbed)


def test_damage_that_a_crash_can_leave_is_harmless(scene):
    stack = scene.copy("harmless", of=scene.finished)
    for layer in LAYERS:
        newest_commit(stack, layer)
    stack.discover()
    assert stack.run() is None
    assert not differences(everything(stack), scene.undisturbed)


def test_the_gold_clock_may_lose_its_newest_batch(scene):
    """Gold names in its own commits how far it has come; its checkpoint says only when to look."""
    stack = scene.copy("gold_clock", of=scene.finished)
    newest_of_both(stack, "gold")
    assert stack.run() is None
    assert not differences(everything(stack), scene.undisturbed)


def test_a_gold_table_that_was_removed_is_built_again_without_new_data(scene):
    stack = scene.copy("gold_removed", of=scene.finished)
    table = "gold.cloudtrail_denied_15m"
    shutil.rmtree(stack.settings.location(TableId.parse(table)))
    assert stack.run() is None
    found = everything(stack)
    assert found[table] == scene.undisturbed[table]
    assert [row["table"] for row in stack.rows("_ops.books") if row["batch_id"] == "v1-00000001-again"] == [table]
    assert stack.run() is None
    assert everything(stack) == found


def test_a_gold_table_that_was_restored_is_refused_and_built_again_as_the_sentence_says(scene):
    stack = scene.copy("gold_restored", of=scene.finished)
    table = TableId("gold", "cloudtrail_activity_1h")
    DeltaTable(stack.settings.location(table)).restore(0)
    with pytest.raises(CheckpointDamaged, match=r"silver.cloudtrail_events version 1, but a restore took it back to version 0"):
        stack.run("gold")
    shutil.rmtree(stack.settings.location(table))
    assert stack.run() is None
    assert everything(stack)[str(table)] == scene.undisturbed[str(table)]


@pytest.mark.parametrize("change", [lambda table: table.delete("_record_index = 0"), lambda table: table.update({"raw": "'{}'"})])
def test_rows_of_bronze_changed_by_hand_stop_silver_with_a_sentence(scene, change):
    stack = scene.copy(f"changed_{id(change)}", of=scene.finished)
    location = Path(stack.settings.location(LAYERS["bronze"]))
    before = everything(stack)
    change(DeltaTable(location))
    version = DeltaTable(location).version()
    with pytest.raises(SourceChanged, match=rf"source bronze.cloudtrail_records were changed in place by \w+ in the .*version {version}"):
        stack.run("silver")
    assert {name: rows for name, rows in everything(stack).items() if "silver" in name} == {
        name: rows for name, rows in before.items() if "silver" in name
    }
    (location / "_delta_log" / f"{version:020d}.json").unlink()
    assert stack.run() is None
    assert everything(stack) == before
