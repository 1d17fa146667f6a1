"""The lake without a JVM: delta-rs handles on tables, and the storage they lie on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow.dataset import Dataset, dataset, partitioning
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


def storage(place: str) -> tuple[AbstractFileSystem, str]:
    """The file system of a path or URL, and the path in that file system's own form."""
    fs, path = fsspec.core.url_to_fs(place)
    return fs, path


def lake_table(settings: Settings, table: TableId, version: int | None = None) -> DeltaTable | None:
    """The Delta table at its latest (or the named) version; None when it was never written."""
    try:
        return DeltaTable(settings.location(table), version=version)
    except TableNotFoundError:
        return None


def rows_of(table: DeltaTable, schema: pa.Schema | None = None) -> Dataset:
    """A table's rows as an Arrow dataset.

    On a disk through Arrow's own file system: delta-rs's is called back in Python from Arrow's threads, and one of those that is still
    at work when the interpreter ends aborts the process (seen once in some forty short commands).
    """
    uri = table.table_uri
    path = uri.removeprefix("file://") if uri.startswith("file://") else uri if uri.startswith("/") else ""
    if not path:
        return table.to_pyarrow_dataset(schema=schema)
    return table.to_pyarrow_dataset(schema=schema, filesystem=SubTreeFileSystem(unquote(path), LocalFileSystem()))


def rows_that_may(
    table: DeltaTable,
    schema: pa.Schema,
    equal: Mapping[str, object],
    present: Sequence[str] = (),
    since: Mapping[str, datetime] | None = None,
) -> Dataset:
    """The rows of those data files that may hold rows with these values, with these columns not null, and from these times on.

    Other rows are among them.

    The files are chosen by their statistics as one Arrow table: delta-rs's dataset makes an expression of each file's, 0.4 s for 900 files.
    """
    files = pa.table(table.get_add_actions(flatten=True))
    partitions = table.metadata().partition_columns
    for name, value in equal.items():
        if name in partitions:
            files = files.filter(pc.equal(files[f"partition.{name}"], value))
        elif f"min.{name}" in files.column_names:
            low, high = files[f"min.{name}"], files[f"max.{name}"]
            files = files.filter(pc.fill_null(pc.and_kleene(pc.less_equal(low, value), pc.greater_equal(high, value)), False))
    for name, moment in (since or {}).items():
        if f"max.{name}" in files.column_names:
            # A bound in the log is cut to the millisecond.
            files = files.filter(pc.fill_null(pc.greater_equal(files[f"max.{name}"], moment - timedelta(milliseconds=1)), True))
    for name in present:
        if f"null_count.{name}" in files.column_names:
            files = files.filter(pc.fill_null(pc.less(files[f"null_count.{name}"], files["num_records"]), True))
    return rows_of_files(table, schema, files["path"].to_pylist())


def rows_of_files(table: DeltaTable, schema: pa.Schema, names: Sequence[str]) -> Dataset:
    """The rows of some of a table's data files, named as the log names them."""
    if not names:
        return dataset(schema.empty_table())
    partitions = partitioning(pa.schema([schema.field(name) for name in table.metadata().partition_columns]), flavor="hive")
    uri = table.table_uri
    if on_disk := unquote(uri.removeprefix("file://")) if uri.startswith(("file://", "/")) else "":
        fs, root = LocalFileSystem(), on_disk.rstrip("/")
    else:
        fs, root = storage(uri.rstrip("/"))
    paths = [f"{root}/{unquote(name)}" for name in names]
    found: Dataset = dataset(paths, schema=schema, format="parquet", filesystem=fs, partition_base_dir=root, partitioning=partitions)
    return found


def bytes_of_days(settings: Settings, table: TableId, column: str, days: Collection[date]) -> int:
    """How large the data files of these days are; `column` is the table's partition column."""
    found = lake_table(settings, table)
    if found is None:
        return 0
    files = pa.table(found.get_add_actions(flatten=True))
    mine = pc.is_in(pc.cast(files[f"partition.{column}"], pa.date32()), value_set=pa.array(sorted(days), pa.date32()))
    return int(pc.sum(files["size_bytes"].filter(mine)).as_py() or 0)


def commit_metadata(settings: Settings, table: TableId, version: int) -> dict[str, Any]:
    """The `commitInfo` action of one commit; an empty dict when the commit file was cleaned up."""
    for action in commit_actions(settings, table, version):
        if "commitInfo" in action:
            info: dict[str, Any] = action["commitInfo"]
            return info
    return {}


def commit_actions(settings: Settings, table: TableId, version: int) -> list[dict[str, Any]]:
    """All actions of one commit in their written order; raises FileNotFoundError when the commit file was cleaned up."""
    import msgspec

    fs, root = storage(settings.location(table))
    content: bytes = fs.cat_file(f"{root}/_delta_log/{version:020d}.json")
    return [msgspec.json.decode(line) for line in content.splitlines() if line.strip()]
