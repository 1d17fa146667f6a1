"""Readings of landed files as Arrow batches: what the Python workers hand back to Spark."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from datetime import UTC
from itertools import accumulate
from typing import Any

import pyarrow as pa

from spark_jobs.io.file_reading import FileReading, Piece

READ_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),  # record | quarantined | outcome: what is filled is said in `to_arrow_batches`
        ("file_id", pa.string()),
        ("path", pa.string()),
        ("attempt", pa.int32()),
        ("record_index", pa.int32()),
        ("raw", pa.string()),
        ("raw_bytes", pa.binary()),
        ("rule", pa.string()),
        ("reason", pa.string()),
        ("heals", pa.bool_()),
        ("sha256", pa.string()),
        ("bytes", pa.int64()),
        ("inflated_bytes", pa.int64()),
        ("records", pa.int64()),
        ("quarantined", pa.int64()),
        ("notes", pa.string()),
        ("listed_at", pa.timestamp("us", "UTC")),
    ]
)
# The same for Spark.
READ_COLUMNS = (
    "kind string, file_id string, path string, attempt int, record_index int, raw string, raw_bytes binary, rule string, reason string, "
    "heals boolean, sha256 string, bytes bigint, inflated_bytes bigint, records bigint, quarantined bigint, notes string, listed_at timestamp"
)

# A batch is copied two or three times on its way into the JVM, so it is kept to a few megabytes; below one, its fixed cost shows.
MOST_BYTES = 8_000_000
ENOUGH_BYTES = 1_000_000
MOST_ROWS = 20_000


def to_arrow_batches(readings: Iterable[FileReading]) -> Iterator[pa.RecordBatch]:
    """Batches of READ_SCHEMA with at most about 8 MB of text each (a larger record is a batch of its own).

    For each file its pieces in order, then one outcome row. kind `record` fills raw; `quarantined` fills raw_bytes, rule and reason;
    `outcome` fills rule, reason, heals, bytes, inflated_bytes, records, quarantined and notes, with rule null when the file was read.
    All of them fill file_id, path, attempt, sha256 and listed_at. Holds one document at a time if `readings` does.
    """
    waiting: list[pa.RecordBatch] = []
    size = rows = 0
    for part in _parts(readings):
        if waiting and (size + part.nbytes > MOST_BYTES or rows + part.num_rows > MOST_ROWS):
            yield _joined(waiting)
            waiting, size, rows = [], 0, 0
        waiting.append(part)
        size, rows = size + part.nbytes, rows + part.num_rows
        if size > ENOUGH_BYTES:
            yield _joined(waiting)
            waiting, size, rows = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _parts(readings: Iterable[FileReading]) -> Iterator[pa.RecordBatch]:
    for reading in readings:
        chunk: list[Piece] = []
        size = 0
        for piece in reading.pieces():
            if chunk and (size + piece.text.nbytes > MOST_BYTES or len(chunk) == MOST_ROWS):
                yield _piece_rows(reading, chunk)
                chunk, size = [], 0
            chunk.append(piece)
            size += piece.text.nbytes
        if chunk:
            yield _piece_rows(reading, chunk)
        yield _outcome_row(reading)
        # Not to hold this document while the next file is read.
        del reading, chunk
        piece = None


def _piece_rows(reading: FileReading, pieces: list[Piece]) -> pa.RecordBatch:
    columns: dict[str, Any] = {"record_index": pa.array([piece.record_index for piece in pieces], pa.int32())}
    if any(piece.rule for piece in pieces):
        columns["kind"] = pa.array(["quarantined" if piece.rule else "record" for piece in pieces])
        columns["raw"] = pa.array([None if piece.rule else str(piece.text, "utf-8") for piece in pieces], pa.string())
        columns["raw_bytes"] = pa.array([piece.text if piece.rule else None for piece in pieces], pa.binary())
        columns["rule"] = pa.array([piece.rule for piece in pieces], pa.string())
        columns["reason"] = pa.array([piece.reason for piece in pieces], pa.string())
    else:
        columns["kind"] = pa.repeat("record", len(pieces))
        columns["raw"] = _texts([piece.text for piece in pieces])
    return _batch(reading, len(pieces), columns)


def _texts(texts: list[memoryview]) -> pa.StringArray:
    """The texts as one column, copied once. That they are UTF-8 was checked for the document as a whole."""
    offsets = array("i", accumulate((text.nbytes for text in texts), initial=0))
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(b"".join(texts)))


def _outcome_row(reading: FileReading) -> pa.RecordBatch:
    facts = ("rule", "reason", "heals", "bytes", "inflated_bytes", "records", "quarantined", "notes")
    columns = {name: pa.array([getattr(reading, name)], READ_SCHEMA.field(name).type) for name in facts}
    return _batch(reading, 1, columns | {"kind": pa.array(["outcome"])})


def _batch(reading: FileReading, rows: int, columns: dict[str, Any]) -> pa.RecordBatch:
    entry = reading.entry
    # A timestamp without a zone is one that Spark handed over, in the zone of this machine.
    listed_at = entry.listed_at and entry.listed_at.astimezone(UTC)
    of_file = {"file_id": entry.file_id, "path": entry.path, "attempt": entry.attempt, "sha256": reading.sha256, "listed_at": listed_at}
    for field in READ_SCHEMA:
        if field.name not in columns:
            value = of_file.get(field.name)
            columns[field.name] = pa.nulls(rows, field.type) if value is None else pa.repeat(pa.scalar(value, field.type), rows)
    return pa.RecordBatch.from_arrays([columns[name] for name in READ_SCHEMA.names], schema=READ_SCHEMA)


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
