"""Readings of landed files as Arrow batches: what the Python workers hand back to Spark."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

import msgspec
import pyarrow as pa

from spark_jobs.io.file_reading import FileReading

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
    "kind string, file_id string, path string, attempt int, record_index int, raw string, raw_bytes binary, rule string, "
    "reason string, heals boolean, sha256 string, bytes bigint, inflated_bytes bigint, records bigint, quarantined bigint, notes string, "
    "listed_at timestamp"
)

# A batch is copied two or three times on its way into the JVM, so it is kept to a few megabytes; below one, its fixed cost shows.
MOST_BYTES = 8_000_000
ENOUGH_BYTES = 1_000_000
MOST_ROWS = 20_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_arrow_batches(readings: Iterable[FileReading]) -> Iterator[pa.RecordBatch]:
    """Batches of READ_SCHEMA with at most about 8 MB of text each (a larger record is a batch of its own).

    For each file its pieces in order, then one outcome row. kind `record` fills raw; `quarantined` fills raw_bytes, rule and reason;
    `outcome` fills rule, reason, heals, bytes, inflated_bytes, records, quarantined and notes, with rule null when the file was read.
    All of them fill file_id, path, attempt, sha256 and listed_at. Holds one document at a time if `readings` does.

    Columns of a file without flaws are made from buffers: the first `pa.array` or `pa.scalar` of a process imports pandas (0.5 to 1 CPU-s).
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
        lengths = [memoryview(piece).nbytes for piece in reading.split.pieces]
        for first, last in _ranges(lengths):
            yield _piece_rows(reading, first, last, lengths[first:last])
        yield _outcome_row(reading)
        del reading  # not to hold its document while the next file is read


def _ranges(lengths: list[int]) -> Iterator[tuple[int, int]]:
    """Consecutive index ranges, each with at most MOST_BYTES and MOST_ROWS."""
    first = size = 0
    for index, length in enumerate(lengths):
        if index > first and (size + length > MOST_BYTES or index - first == MOST_ROWS):
            yield first, index
            first, size = index, 0
        size += length
    if lengths:
        yield first, len(lengths)


def _piece_rows(reading: FileReading, first: int, last: int, lengths: list[int]) -> pa.RecordBatch:
    split = reading.split
    flaws = [split.flaws.get(index) for index in range(first, last)] if split.flaws else []
    columns: dict[str, Any] = {"record_index": _numbers("i", range(first, last), pa.int32())}
    if any(flaws):
        pieces = [bytes(memoryview(piece)) for piece in split.pieces[first:last]]
        columns["kind"] = pa.array(["quarantined" if flaw else "record" for flaw in flaws])
        columns["raw"] = pa.array([None if flaw else piece.decode() for piece, flaw in zip(pieces, flaws, strict=True)], pa.string())
        columns["raw_bytes"] = pa.array([piece if flaw else None for piece, flaw in zip(pieces, flaws, strict=True)], pa.binary())
        columns["rule"] = pa.array([flaw and flaw[0] for flaw in flaws], pa.string())
        columns["reason"] = pa.array([flaw and flaw[1] for flaw in flaws], pa.string())
    else:
        columns["kind"] = _constant("record", pa.string(), last - first)
        columns["raw"] = _texts(split.pieces[first:last], lengths)
    return _batch(reading, last - first, columns)


def _texts(pieces: list[msgspec.Raw], lengths: list[int]) -> pa.StringArray:
    """The texts as one column, copied once. That they are UTF-8 was checked for the document as a whole."""
    offsets = array("i", accumulate(lengths, initial=0))
    text = b"".join(pieces)  # type: ignore[arg-type]  # Raw has the buffer protocol, its type stub does not say so
    return pa.StringArray.from_buffers(len(pieces), pa.py_buffer(offsets), pa.py_buffer(text))


def _outcome_row(reading: FileReading) -> pa.RecordBatch:
    facts = ("rule", "reason", "heals", "bytes", "inflated_bytes", "records", "quarantined", "notes")
    columns = {name: _constant(getattr(reading, name), READ_SCHEMA.field(name).type, 1) for name in facts}
    return _batch(reading, 1, columns | {"kind": _constant("outcome", pa.string(), 1)})


def _batch(reading: FileReading, rows: int, columns: dict[str, Any]) -> pa.RecordBatch:
    entry = reading.entry
    # A timestamp without a zone is one that Spark handed over, in the zone of this machine.
    listed_at = entry.listed_at and entry.listed_at.astimezone(UTC)
    of_file = {"file_id": entry.file_id, "path": entry.path, "attempt": entry.attempt, "sha256": reading.sha256, "listed_at": listed_at}
    for field in READ_SCHEMA:
        if field.name not in columns:
            columns[field.name] = _constant(of_file.get(field.name), field.type, rows)
    return pa.RecordBatch.from_arrays([columns[name] for name in READ_SCHEMA.names], schema=READ_SCHEMA)


def _constant(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    """`rows` times the value."""
    if value is None:
        return pa.nulls(rows, kind)
    if isinstance(value, str):
        text = value.encode("utf-8", "replace")
        one = pa.StringArray.from_buffers(1, pa.py_buffer(array("i", (0, len(text)))), pa.py_buffer(text))
    elif isinstance(value, bool):
        one = pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes((value,)))])
    elif isinstance(value, datetime):
        one = _numbers("q", ((value - _EPOCH) // timedelta(microseconds=1),), kind)
    else:
        one = _numbers("i" if kind == pa.int32() else "q", (value,), kind)
    return pa.repeat(one[0], rows)


def _numbers(code: str, values: Sequence[int], kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(array(code, values))])


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
