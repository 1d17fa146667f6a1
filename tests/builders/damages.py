"""Changes and damages of a lake's checkpoints and tables, and what the doctor and a real restart make of them."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest import mock

import pytest
from deltalake import DeltaTable

from spark_jobs.io.lease import Leases
from spark_jobs.io.ops import Ops
from spark_jobs.jobs import build_silver, ingest_bronze, publishing
from spark_jobs.jobs.doctor import REBUILD, diagnose
from spark_jobs.jobs.layer_start import has_source
from spark_jobs.jobs.rebuild import rebuild as rebuild_query
from spark_jobs.jobs.rebuild import tables_of
from spark_jobs.spec.errors import AssayError
from spark_jobs.spec.tables import FILES, TableId
from tests.builders.disturbed import differences, everything
from tests.builders.ended_at import ended_at
from tests.builders.stack import Stack

LAYERS = {
    "bronze": TableId("bronze", "cloudtrail_records"),
    "silver": TableId("silver", "cloudtrail_events"),
    "gold": TableId("gold", "cloudtrail"),
}
Damage = Callable[[Stack], object]


def checkpoint(stack: Stack, layer: str, generation: str = "v1") -> Path:
    return Path(stack.settings.checkpoint(LAYERS[layer])) / generation


def newest(folder: Path) -> Path:
    return max((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


def whole(stack: Stack, layer: str, generation: str = "v1") -> None:
    remove(checkpoint(stack, layer, generation))


def generation_file(stack: Stack, layer: str) -> None:
    remove(checkpoint(stack, layer) / "assay.json")


def metadata(stack: Stack, layer: str) -> None:
    remove(checkpoint(stack, layer) / "metadata")


def newest_offsets(stack: Stack, layer: str, generation: str = "v1") -> None:
    remove(newest(checkpoint(stack, layer, generation) / "offsets"))


def newest_commit(stack: Stack, layer: str) -> None:
    remove(newest(checkpoint(stack, layer) / "commits"))


def newest_of_both(stack: Stack, layer: str) -> None:
    newest_offsets(stack, layer)
    newest_commit(stack, layer)


def offsets_cut(stack: Stack, layer: str) -> None:
    newest(checkpoint(stack, layer) / "offsets").write_bytes(b"")


def offsets_garbage(stack: Stack, layer: str) -> None:
    newest(checkpoint(stack, layer) / "offsets").write_bytes(b"v1\n{}\n\xde\xad")


def of_another_table(stack: Stack, layer: str) -> None:
    remove(checkpoint(stack, layer))
    shutil.copytree(checkpoint(stack, "silver" if layer == "bronze" else "bronze"), checkpoint(stack, layer))


def remove_table(stack: Stack, table: TableId) -> None:
    shutil.rmtree(stack.settings.location(table))


def restore_table(stack: Stack, table: TableId, version: int = 0) -> None:
    DeltaTable(stack.settings.location(table)).restore(version)


def list_anew(stack: Stack) -> None:
    """The ledger is lost and made again, in pieces of another size."""
    remove_table(stack, FILES)
    stack.settings = stack.settings.model_copy(update={"batch_files": 3})
    stack.discover()


def read_anew(stack: Stack) -> None:
    """Bronze and ledger are lost and made again, with what has landed since in the same files as what silver has already."""
    remove_table(stack, LAYERS["bronze"])
    remove_table(stack, FILES)
    stack.settings = stack.settings.model_copy(update={"batch_files": 100})
    stack.discover()
    rebuild(stack, LAYERS["bronze"])
    assert stack.run("bronze") is None


def die_at(stack: Stack, layer: str, line: str) -> None:
    """The layer's driver dies in `publishing` at its first call of `line`; the layers before it have come through."""
    stack.discover()
    for before in list(LAYERS)[: list(LAYERS).index(layer)]:
        assert stack.run(before) is None
    with ended_at(publishing, line):
        stack.run(layer)


def die_inside_a_version(stack: Stack) -> None:
    """Bronze has several files in a version, silver takes one in a batch and dies at its fourth: the third ended inside a version."""
    stack.discover()
    with mock.patch.object(ingest_bronze, "BYTES_PER_TASK", 200):
        assert stack.run("bronze") is None
    declared = build_silver.read_stream

    def one_file(spark, settings, table, **_limits):
        return declared(spark, settings, table, maxFilesPerTrigger="1")

    with mock.patch.object(build_silver, "read_stream", one_file), ended_at(publishing, "append_once", call=4):
        stack.run("silver")
    assert '"index":0' in newest(checkpoint(stack, "silver") / "offsets").with_name("3").read_text()


def move_lake(stack: Stack) -> None:
    """The whole lake to another folder, and the stack with it."""
    elsewhere = stack.folder / "elsewhere" / "lake"
    elsewhere.parent.mkdir()
    Path(stack.settings.lake).rename(elsewhere)
    stack.settings = stack.settings.model_copy(update={"lake": str(elsewhere)})
    stack.ops = Ops(stack.settings)


def verdicts(stack: Stack) -> dict[str, tuple[str, str]]:
    """Per query: verdict and reason."""
    return {one.query: (one.verdict, one.reason) for one in diagnose(stack.start())}


def to_rebuild(stack: Stack) -> dict[str, str]:
    """What needs a rebuild, in data order, with the reason."""
    return {query: reason for query, (verdict, reason) in verdicts(stack).items() if verdict == REBUILD}


def rebuild(stack: Stack, query: TableId | str) -> list[str]:
    run, table = stack.start(), query if isinstance(query, TableId) else TableId.parse(query)
    with Leases(stack.settings, tables_of(run, table), run.run_id) as leases:
        return rebuild_query(run, leases, table).said


def layer_of(query: str) -> str:
    return query.split(".")[0]


def refuses(stack: Stack, query: str, reason: str) -> None:
    """A start of the layer is refused with that sentence, and writes nothing. (One whose source is gone has nothing to start with.)"""
    before = files(stack)
    layer = layer_of(query)
    if not has_source(stack.start(), layer):
        assert stack.run(layer) is None
        assert files(stack) == before
        return
    with pytest.raises(AssayError) as refusal:
        stack.run(layer)
    assert str(refusal.value) == reason
    assert refusal.value.exit_code == 4
    assert files(stack) == before


def run_and_rebuild(stack: Stack) -> list[str]:
    """Rebuild what needs it and run, until everything came through; a layer's table that was made anew stops the one after it once more."""
    rebuilt: list[str] = []
    for _ in LAYERS:
        needed = to_rebuild(stack)
        for query in needed:
            rebuild(stack, query)
        rebuilt += needed
        stack.discover()
        try:
            assert stack.run() is None
            return rebuilt
        except AssayError as refusal:
            assert str(refusal) in to_rebuild(stack).values()
    raise AssertionError(f"still refused after {rebuilt}")


def assert_as_undisturbed(stack: Stack, undisturbed: Mapping[str, list[str]]) -> None:
    found = differences(comparable(everything(stack)), comparable(undisturbed))
    assert not found, "\n".join(found)


def comparable(tables: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Tables without the names of batches. Of the books, the totals per table of bronze and silver: a rebuild may cut batches otherwise."""
    found = {name: sorted(re.sub(r"v\d+-\d{8}", "a batch", row) for row in rows) for name, rows in tables.items()}
    if "_ops.amendments" in found:
        found["_ops.amendments"] = sorted(re.sub(r'"silver_version": \d+', "", row) for row in found["_ops.amendments"])
    totals: dict[str, Counter[str]] = {}
    for row in map(json.loads, tables.get("_ops.books", [])):
        if not row["table"].startswith("gold"):
            counts = {name: row[name] or 0 for name in ("read", "written", "quarantined", "duplicate", "held", "files_read", "files_ok")}
            totals.setdefault(row["table"], Counter()).update(counts)
    found["_ops.books"] = [f"{table}: {sorted(total.items())}" for table, total in sorted(totals.items())]
    return found


def files(stack: Stack) -> dict[str, tuple[int, int]]:
    """Every file of the lake with its size and time; leases apart, which each run takes and gives back."""
    root = Path(stack.settings.lake)
    return {
        str(path.relative_to(root)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file() and "_leases" not in path.parts
    }
