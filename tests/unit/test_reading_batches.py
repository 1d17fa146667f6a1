"""Readings as Arrow batches: every piece once, in order, within the bound, with one outcome per file."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.io import reading_batches
from spark_jobs.io.file_reading import FileReading
from spark_jobs.io.read_landed_file import read_landed_file
from spark_jobs.io.reading_batches import READ_COLUMNS, READ_SCHEMA, to_arrow_batches
from tests.builders.landing_files import bad_files, document, land, listed, log_path, packed, record_text, sample_files


def readings(folder: Path) -> list[FileReading]:
    found = []
    for number, case in enumerate(bad_files()):
        entry = listed(land(folder, case.stored, log_path(number, case.suffix)), attempt=2)
        found.append(read_landed_file(entry, records_key="Records", max_inflated_bytes=30_000_000))
    return found


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[dict[str, object]]:
    return pa.Table.from_batches(batches, READ_SCHEMA).to_pylist()


def test_every_piece_is_a_row_and_every_file_has_one_outcome(tmp_path: Path) -> None:
    found = readings(tmp_path)
    batches = list(to_arrow_batches(iter(found)))
    for batch in batches:
        batch.validate(full=True)
    rows = iter(rows_of(iter(batches)))
    for reading in found:
        of_file = {
            "file_id": reading.entry.file_id, "path": reading.entry.path, "attempt": 2, "sha256": reading.sha256,
            "listed_at": datetime(2024, 5, 1, 13, tzinfo=UTC),
        }  # fmt: skip
        empty = dict.fromkeys(READ_SCHEMA.names) | of_file
        for piece in reading.pieces():
            text = bytes(piece.text)
            if piece.rule:
                kind = {"kind": "quarantined", "raw_bytes": text, "rule": piece.rule, "reason": piece.reason}
            else:
                kind = {"kind": "record", "raw": text.decode()}
            assert next(rows) == empty | kind | {"record_index": piece.record_index}
        facts = ("rule", "reason", "heals", "bytes", "inflated_bytes", "records", "quarantined", "notes")
        assert next(rows) == empty | {"kind": "outcome"} | {name: getattr(reading, name) for name in facts}
    assert next(rows, None) is None


@pytest.mark.parametrize(("most_bytes", "most_rows"), [(1, 20_000), (3_000, 20_000), (8_000_000, 1), (8_000_000, 7), (100_000, 50)])
def test_batches_are_bounded_however_large_the_file(most_bytes: int, most_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_batches, "MOST_BYTES", most_bytes)
    monkeypatch.setattr(reading_batches, "MOST_ROWS", most_rows)
    entries = [listed(file) for file in sample_files()]
    batches = list(to_arrow_batches(read_landed_file(entry, records_key="Records", max_inflated_bytes=10_000_000) for entry in entries))
    rows = rows_of(iter(batches))
    assert sum(row["kind"] == "record" for row in rows) == 2_092
    assert sum(row["kind"] == "outcome" for row in rows) == 36
    for batch in batches:
        texts = batch.column("raw").to_pylist()
        assert batch.num_rows <= most_rows
        assert len([text for text in texts if text]) <= 1 or sum(len(text or "") for text in texts) <= most_bytes
    expected = [(entry.file_id, index) for entry in entries for index in range(sum(row["file_id"] == entry.file_id for row in rows) - 1)]
    assert [(row["file_id"], row["record_index"]) for row in rows if row["kind"] == "record"] == expected


def test_small_files_share_a_batch() -> None:
    entries = [listed(file) for file in sample_files()]
    batches = list(to_arrow_batches(read_landed_file(entry, records_key="Records", max_inflated_bytes=10_000_000) for entry in entries))
    assert len(batches) < 10


def test_one_document_is_held_at_a_time(tmp_path: Path) -> None:
    """The bytes of a file are free before the next file is read."""

    class Watched(FileReading):  # without slots, so that its end can be seen
        pass

    held: list[weakref.ref[Watched]] = []
    living: list[int] = []

    def one_by_one() -> Iterator[FileReading]:
        for number in range(4):
            gc.collect()
            living.append(sum(reading() is not None for reading in held))
            entry = listed(land(tmp_path, packed(document_of(number)), log_path(number)))
            watched = Watched(entry, split=read_landed_file(entry, records_key="Records", max_inflated_bytes=1_000_000).split)
            held.append(weakref.ref(watched))
            yield watched
            del watched

    assert len(list(to_arrow_batches(one_by_one()))) == 1
    assert living == [0, 0, 0, 0]


def document_of(number: int) -> bytes:
    return document(record_text(number * 10 + index) for index in range(10))


def test_a_time_without_a_zone_is_one_of_this_machine(tmp_path: Path) -> None:
    """Spark hands timestamps to Python as local times without a zone."""
    moment = datetime(2024, 5, 1, 13, 0, 0, 123_456, tzinfo=UTC)
    entry = listed(land(tmp_path, packed(document([record_text(1)])), log_path()))
    entry = replace(entry, listed_at=moment.astimezone().replace(tzinfo=None))
    rows = rows_of(to_arrow_batches([read_landed_file(entry, records_key="Records", max_inflated_bytes=1_000_000)]))
    assert [row["listed_at"] for row in rows] == [moment, moment]


def test_the_spark_columns_are_the_arrow_schema() -> None:
    spark_names = {
        pa.string(): "string", pa.binary(): "binary", pa.int32(): "int", pa.int64(): "bigint", pa.bool_(): "boolean",
        pa.timestamp("us", "UTC"): "timestamp",
    }  # fmt: skip
    assert ", ".join(f"{field.name} {spark_names[field.type]}" for field in READ_SCHEMA) == READ_COLUMNS


def test_a_worker_does_not_load_pandas_or_spark() -> None:
    """Good files are read with what costs little to import: pandas alone is 0.5 to 1 CPU-second in every worker."""
    program = (
        "import sys\n"
        "from tests.builders.landing_files import listed, sample_files\n"
        "from spark_jobs.io.read_landed_file import read_landed_file\n"
        "from spark_jobs.io.reading_batches import to_arrow_batches\n"
        "entries = [listed(file) for file in sample_files()]\n"
        "read = (read_landed_file(entry, records_key='Records', max_inflated_bytes=10_000_000) for entry in entries)\n"
        "print(sum(batch.num_rows for batch in to_arrow_batches(read)))\n"
        "print([name for name in ('pandas', 'pyspark', 'deltalake', 'great_expectations', 'pydantic') if name in sys.modules])\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]).stdout
    assert said.split("\n")[:2] == [str(2_092 + 36), "[]"]
