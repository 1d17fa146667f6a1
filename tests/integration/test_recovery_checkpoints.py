"""Checkpoints that were deleted or damaged, under the real jobs: refused before any table is written, or harmless and equal in the end."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from spark_jobs.spec.errors import CheckpointDamaged, SourceChanged
from spark_jobs.spec.tables import TableId
from tests.builders.disturbed import differences, everything


@pytest.fixture(scope="module")
def finished(scene):
    """Both deliveries are through: bronze batches 0 to 2, silver and gold 0 and 1."""
    stack = scene.copy("finished")
    stack.discover()
    assert stack.run() is None
    return stack


LAYERS = {
    "bronze": TableId("bronze", "cloudtrail_records"),
    "silver": TableId("silver", "cloudtrail_events"),
    "gold": TableId("gold", "cloudtrail"),
}


def _checkpoint(stack, layer):
    return Path(stack.settings.checkpoint(LAYERS[layer])) / "v1"


def _newest(folder):
    return max((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))


def _remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    crc = path.parent / f".{path.name}.crc"
    crc.unlink(missing_ok=True)


def _whole(stack, folder):
    _remove(folder)


def _generation(stack, folder):
    _remove(folder / "assay.json")


def _metadata(stack, folder):
    _remove(folder / "metadata")


def _newest_offsets(stack, folder):
    _remove(_newest(folder / "offsets"))


def _newest_commit(stack, folder):
    _remove(_newest(folder / "commits"))


def _newest_of_both(stack, folder):
    _newest_offsets(stack, folder)
    _newest_commit(stack, folder)


def _offsets_cut(stack, folder):
    _newest(folder / "offsets").write_bytes(b"")


def _offsets_garbage(stack, folder):
    _newest(folder / "offsets").write_bytes(b"v1\n{}\n\xde\xad")


def _of_another_table(stack, folder):
    shutil.rmtree(folder)
    shutil.copytree(_checkpoint(stack, "silver" if "bronze" in str(folder) else "bronze"), folder)


REFUSED = [
    (layer, damage, file)
    for layer in LAYERS
    for damage, file in (
        (_whole, "assay.json is missing"),
        (_generation, "assay.json is missing"),
        (_metadata, "metadata is missing"),
        (_newest_offsets, r"offsets/\d is missing"),
        (_offsets_cut, r"offsets/\d is damaged"),
        (_offsets_garbage, r"offsets/\d is damaged"),
        (_of_another_table, "belongs to"),
    )
] + [(layer, _newest_of_both, r"offsets/\d is missing") for layer in ("bronze", "silver")]


@pytest.mark.parametrize(("layer", "damage", "sentence"), REFUSED, ids=lambda value: getattr(value, "__name__", None))
def test_damage_is_refused_before_anything_is_written(scene, finished, layer, damage, sentence):
    stack = scene.copy(f"{layer}{damage.__name__}", of=finished)
    damage(stack, _checkpoint(stack, layer))
    before = _files(stack)
    with pytest.raises(CheckpointDamaged, match=sentence) as refusal:
        stack.run(layer)
    assert "othing was written by this run" in str(refusal.value)
    assert str(_checkpoint(stack, layer)) in str(refusal.value)
    assert _files(stack) == before


@pytest.mark.parametrize(("layer", "table"), [("bronze", "bronze.cloudtrail_records"), ("silver", "silver.cloudtrail_events")])
def test_a_table_removed_or_restored_under_its_checkpoint_is_refused(scene, finished, layer, table):
    removed = scene.copy(f"{layer}_removed", of=finished)
    shutil.rmtree(removed.settings.location(TableId.parse(table)))
    with pytest.raises(CheckpointDamaged, match=rf"{table} holds batches up to -1, its checkpoint"):
        removed.run(layer)
    assert not Path(removed.settings.location(TableId.parse(table))).exists()

    restored = scene.copy(f"{layer}_restored", of=finished)
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


def test_damage_that_a_crash_can_leave_is_harmless(scene, finished):
    stack = scene.copy("harmless", of=finished)
    for layer in LAYERS:
        _newest_commit(stack, _checkpoint(stack, layer))
    stack.discover()
    assert stack.run() is None
    assert not differences(everything(stack), scene.undisturbed)


def test_the_gold_clock_may_lose_its_newest_batch(scene, finished):
    """Gold names in its own commits how far it has come; its checkpoint says only when to look."""
    stack = scene.copy("gold_clock", of=finished)
    _newest_of_both(stack, _checkpoint(stack, "gold"))
    assert stack.run() is None
    assert not differences(everything(stack), scene.undisturbed)


def test_a_gold_table_that_was_removed_is_built_again_without_new_data(scene, finished):
    stack = scene.copy("gold_removed", of=finished)
    table = "gold.cloudtrail_denied_15m"
    shutil.rmtree(stack.settings.location(TableId.parse(table)))
    assert stack.run() is None
    found = everything(stack)
    assert found[table] == scene.undisturbed[table]
    assert [row["table"] for row in stack.rows("_ops.books") if row["batch_id"] == "v1-00000001-again"] == [table]
    assert stack.run() is None
    assert everything(stack) == found


def test_a_gold_table_that_was_restored_is_refused_and_built_again_as_the_sentence_says(scene, finished):
    stack = scene.copy("gold_restored", of=finished)
    table = TableId("gold", "cloudtrail_activity_1h")
    DeltaTable(stack.settings.location(table)).restore(0)
    with pytest.raises(CheckpointDamaged, match=r"silver.cloudtrail_events version 1, but a restore took it back to version 0"):
        stack.run("gold")
    shutil.rmtree(stack.settings.location(table))
    assert stack.run() is None
    assert everything(stack)[str(table)] == scene.undisturbed[str(table)]


@pytest.mark.parametrize("change", [lambda table: table.delete("_record_index = 0"), lambda table: table.update({"raw": "'{}'"})])
def test_rows_of_bronze_changed_by_hand_stop_silver_with_a_sentence(scene, finished, change):
    stack = scene.copy(f"changed_{id(change)}", of=finished)
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


def _files(stack):
    """Every file of the lake with its size and time; leases apart, which each run takes and gives back."""
    root = Path(stack.settings.lake)
    return {
        str(path.relative_to(root)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file() and "_leases" not in path.parts
    }
