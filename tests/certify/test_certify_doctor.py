"""The whole matrix of the doctor: each change and damage, its verdict, and a real restart with a second delivery arriving after it.

Safe: the restart ends as an undisturbed run. Needs a rebuild: a start is refused with the doctor's sentence before anything is written, and
after `assay doctor --rebuild` it ends as an undisturbed run.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from spark_jobs.jobs.doctor import SHUFFLE
from spark_jobs.pipelines.cloudtrail import gold, silver
from spark_jobs.spec.tables import TableId
from tests.builders import damages
from tests.builders.damages import (
    LAYERS,
    assert_as_undisturbed,
    comparable,
    die_at,
    die_inside_a_version,
    list_anew,
    metadata,
    move_lake,
    read_anew,
    rebuild,
    refuses,
    remove_table,
    restore_table,
    run_and_rebuild,
    to_rebuild,
    verdicts,
)
from tests.builders.disturbed import differences, everything

BRONZE, SILVER, GOLD = map(str, LAYERS.values())
DENIED = TableId("gold", "cloudtrail_denied_15m")


def _on_each_layer(damage):
    return lambda stack: [damage(stack, layer) for layer in LAYERS]


def _log_cut(stack, table, up_to):
    """The commits below a version are gone, as some other tool's clean-up leaves a log: behind a checkpoint of the table."""
    DeltaTable(stack.settings.location(table)).create_checkpoint()
    for version in range(up_to):
        for file in (Path(stack.settings.location(table)) / "_delta_log").glob(f"*{version:020d}.*"):
            file.unlink()


def _source_log_cut(stack):
    stack.discover()
    assert stack.run("bronze") is None
    _log_cut(stack, LAYERS["bronze"], 1)


def _source_log_cut_beyond(stack):
    """Of two versions that silver has not taken, the first has no commit any more."""
    stack.discover()
    assert stack.run("bronze") is None
    _log_cut(stack, LAYERS["bronze"], 2)


def _newest_generation_lost(stack):
    metadata(stack, "silver")
    rebuild(stack, SILVER)
    stack.discover()
    assert stack.run("bronze", "silver") is None
    shutil.rmtree(damages.checkpoint(stack, "silver").with_name("v2"))


SAFE_ONES = {
    "nothing": lambda stack: None,
    "newest commit lost, as after a crash": _on_each_layer(damages.newest_commit),
    "gold's newest offset and commit lost": lambda stack: damages.newest_of_both(stack, "gold"),
    "batch of bronze begun and not committed": lambda stack: die_at(stack, "bronze", "append_once"),
    "batch of silver begun and not committed": lambda stack: die_at(stack, "silver", "append_once"),
    "committed in bronze but not in its checkpoint": lambda stack: die_at(stack, "bronze", "write_books"),
    "committed in silver but not in its checkpoint": lambda stack: die_at(stack, "silver", "write_books"),
    "ended inside a version": die_inside_a_version,
    "lake moved": move_lake,
}
REBUILT = {
    "metadata lost everywhere": (_on_each_layer(metadata), [BRONZE, SILVER, GOLD]),
    "whole checkpoints lost": (_on_each_layer(damages.whole), [BRONZE, SILVER, GOLD]),
    "newest offsets lost": (_on_each_layer(damages.newest_offsets), [BRONZE, SILVER, GOLD]),
    "offsets cut": (_on_each_layer(damages.offsets_cut), [BRONZE, SILVER, GOLD]),
    "generation files lost": (_on_each_layer(damages.generation_file), [BRONZE, SILVER, GOLD]),
    "checkpoint of another table": (lambda stack: damages.of_another_table(stack, "silver"), [SILVER]),
    "newest generation lost": (_newest_generation_lost, [SILVER]),
    "begun in bronze, then metadata lost": (lambda stack: (die_at(stack, "bronze", "append_once"), metadata(stack, "bronze")), [BRONZE]),
    "begun in bronze, then all lost": (lambda stack: (die_at(stack, "bronze", "append_once"), damages.whole(stack, "bronze")), [BRONZE]),
    "committed in bronze, then lost": (lambda stack: (die_at(stack, "bronze", "write_books"), damages.whole(stack, "bronze")), [BRONZE]),
    "begun in silver, then metadata lost": (lambda stack: (die_at(stack, "silver", "append_once"), metadata(stack, "silver")), [SILVER]),
    "begun in silver, then all lost": (lambda stack: (die_at(stack, "silver", "append_once"), damages.whole(stack, "silver")), [SILVER]),
    "committed in silver, then lost": (lambda stack: (die_at(stack, "silver", "write_books"), damages.whole(stack, "silver")), [SILVER]),
    "ended inside a version, then lost": (lambda stack: (die_inside_a_version(stack), damages.whole(stack, "silver")), [SILVER]),
    "ledger made anew": (list_anew, [BRONZE]),
    "ledger and bronze made anew": (read_anew, [SILVER]),
    "source log cut before the position": (_source_log_cut, [SILVER]),
    "bronze removed": (lambda stack: remove_table(stack, LAYERS["bronze"]), [BRONZE, SILVER]),
    "source log cut beyond the position": (_source_log_cut_beyond, [SILVER]),
}
# With both deliveries through: a gold table that is gone cannot say what a late event has changed in it.
GONE = {
    "gold table removed": lambda stack: remove_table(stack, DENIED),
    "newest commit lost, all read": _on_each_layer(damages.newest_commit),
}
# What is set back, is set back to the first delivery.
SET_BACK = {
    "silver restored, under gold": (lambda stack: restore_table(stack, LAYERS["silver"]), [SILVER, GOLD]),
    "gold table restored": (lambda stack: restore_table(stack, DENIED), [GOLD]),
    "silver removed, all read": (lambda stack: remove_table(stack, LAYERS["silver"]), [SILVER, GOLD]),
    "bronze removed, all read": (lambda stack: remove_table(stack, LAYERS["bronze"]), [BRONZE, SILVER]),
}


@pytest.mark.parametrize("case", [*SAFE_ONES, *GONE])
def test_what_is_safe_goes_on_as_if_undisturbed(scene, say, case):
    name = f"safe{[*SAFE_ONES, *GONE].index(case)}"
    stack = scene.copy(name, of=scene.finished) if case in GONE else scene.copy(name)
    {**SAFE_ONES, **GONE}[case](stack)
    assert not to_rebuild(stack)
    stack.discover()
    assert stack.run() is None
    assert_as_undisturbed(stack, scene.undisturbed)
    say(f"  {case}: safe, and equal after a restart")


@pytest.mark.parametrize("case", [*REBUILT, *SET_BACK])
def test_what_needs_a_rebuild_is_refused_and_goes_on_after_it_as_if_undisturbed(scene, say, case):
    damage, queries = {**REBUILT, **SET_BACK}[case]
    name = f"rebuilt{[*REBUILT, *SET_BACK].index(case)}"
    stack = scene.copy(name, of=scene.finished) if case in SET_BACK else scene.copy(name)
    damage(stack)
    needed = to_rebuild(stack)
    assert list(needed) == queries
    for query, reason in needed.items():
        refuses(stack, query, reason)
    rebuilt = run_and_rebuild(stack)
    assert_as_undisturbed(stack, scene.undisturbed)
    assert not to_rebuild(stack)
    say(f"  {case}: needs {', '.join(rebuilt)} rebuilt, and equal after it")


def _filter(stack, patch):
    """A rule that no record of the scene breaks."""
    as_it_was = silver.parse_events
    refused = F.when(F.col("event_name") == "Noise", F.lit("noise")).otherwise(F.col("_rule"))
    patch.setattr(silver, "parse_events", lambda raw: as_it_was(raw).withColumn("_rule", refused))


def _column(stack, patch):
    as_it_was = silver.parse_events
    patch.setattr(silver, "parse_events", lambda raw: as_it_was(raw).withColumn("is_root", F.col("principal_arn").endswith(":root")))


def _window_renamed(stack, patch):
    patch.setitem(gold.TABLES, "activity_hourly", gold.TABLES["activity_1h"])
    first, *others = stack.pipeline.gold
    stack.pipeline = replace(stack.pipeline, gold=(replace(first, subject="activity_hourly"), *others))


def _partitions(stack, patch):
    stack._spark.conf.set(SHUFFLE, "5")


@pytest.mark.parametrize("change", [_filter, _column, _window_renamed, _partitions])
def test_new_code_and_settings_are_safe(scene, say, monkeypatch, change):
    stack = scene.copy(f"code{change.__name__}")
    before = stack._spark.conf.get(SHUFFLE)
    try:
        change(stack, monkeypatch)
        assert {verdict for verdict, _ in verdicts(stack).values()} == {"safe"}
        stack.discover()
        assert stack.run() is None
    finally:
        stack._spark.conf.set(SHUFFLE, before)
    found, wanted = comparable(everything(stack)), comparable(scene.undisturbed)
    if change is _column:
        assert {row["is_root"] for row in stack.rows(SILVER)} == {None, False}
        strip = {
            name: [row.replace('"is_root": false, ', "").replace('"is_root": null, ', "") for row in rows] for name, rows in found.items()
        }
        found = {name: sorted(rows) for name, rows in strip.items()}
    if change is _window_renamed:
        new = "gold.cloudtrail_activity_hourly"
        assert found.pop(new) == wanted.pop("gold.cloudtrail_activity_1h")
        found.pop("_ops.amendments"), wanted.pop("_ops.amendments")  # the new table had published nothing before
    assert not differences(found, wanted)
    say(f"  {change.__name__[1:]}: safe, and equal after a restart")


def test_another_number_of_cores_is_safe(scene, say):
    stack = scene.copy("cores")
    stack.discover()
    assert {verdict for verdict, _ in verdicts(stack).values()} == {"safe"}
    ended = stack.job("run_layers", env={"ASSAY_MASTER": "local[1]"})
    assert ended.returncode == 0, ended.stderr
    assert_as_undisturbed(stack, scene.undisturbed)
    say("  other cores: safe, and equal after a restart")
