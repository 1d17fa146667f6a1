"""One landed file: what comes out is byte for byte what is in it, and whatever is wrong with it is its outcome."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest

from spark_jobs.io import read_landed_file as module
from spark_jobs.io.file_reading import FileReading
from spark_jobs.io.landed_file import LandedFile, file_id, file_system_of, object_version
from spark_jobs.io.read_landed_file import read_landed_file
from tests.builders.landing_files import FileCase, bad_files, document, flipped, land, listed, log_path, packed, record_text, sample_files

BOUND = 100_000_000


def read(entry: LandedFile, bound: int = BOUND) -> FileReading:
    return read_landed_file(entry, records_key="Records", max_inflated_bytes=bound)


def texts(reading: FileReading) -> list[bytes]:
    return [bytes(piece.text) for piece in reading.pieces() if piece.rule is None]


@pytest.mark.parametrize("file", sample_files(), ids=lambda file: file.name[-25:])
def test_the_sample_put_together_again_is_the_file(file: Path) -> None:
    reading = read(listed(file))
    content = gzip.decompress(file.read_bytes())
    assert document(texts(reading)) == content.rstrip(b"\n")
    assert [json.loads(text) for text in texts(reading)] == json.loads(content)["Records"]
    assert (reading.outcome, reading.quarantined, reading.records) == ("ok", 0, len(json.loads(content)["Records"]))
    assert reading.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert (reading.bytes, reading.inflated_bytes) == (file.stat().st_size, len(content))


def test_the_sample_is_whole() -> None:
    readings = [read(listed(file)) for file in sample_files()]
    assert (len(readings), sum(reading.records for reading in readings)) == (36, 2_092)


@pytest.mark.parametrize("case", bad_files(), ids=lambda case: case.name)
def test_bad_files(case: FileCase, tmp_path: Path) -> None:
    file = land(tmp_path, case.stored, log_path(suffix=case.suffix))
    reading = read(listed(file), 1_000_000 if "bound 1 MB" in case.tags else BOUND)
    pieces = list(reading.pieces())
    assert (reading.rule, reading.heals) == (case.rule, case.heals)
    assert texts(reading) == list(case.written)
    assert [(piece.rule, bytes(piece.text)) for piece in pieces if piece.rule] == list(case.quarantined)
    assert [piece.record_index for piece in pieces] == list(range(len(case.written) + len(case.quarantined)))
    assert (reading.records, reading.quarantined) == (len(pieces), len(case.quarantined))
    assert reading.sha256 == hashlib.sha256(case.stored).hexdigest()
    assert reading.bytes == len(case.stored)
    if case.rule:
        assert reading.outcome == "failed"
        assert reading.reason is not None and reading.reason.endswith(".")
        assert not pieces
    for note in (case.note, case.quarantined and f"quarantined: {len(case.quarantined)} {case.quarantined[0][0]}"):
        assert not note or note in (reading.notes or "")
    assert case.note or case.quarantined or reading.notes is None


def test_a_flipped_bit_anywhere_never_gives_other_records(tmp_path: Path) -> None:
    """Ten bytes of gzip header carry no checksum; everything behind them is covered."""
    records = [record_text(number) for number in range(3)]
    stored = packed(document(records))
    rules = set()
    for at in range(10, len(stored), 3):
        reading = read(listed(land(tmp_path, flipped(stored, at), f"{at}.json.gz")))
        rules.add(reading.rule)
        assert reading.rule in {"corrupt_gzip", "truncated_gzip", None}
        assert reading.rule or texts(reading) == records
        assert reading.rule is None or reading.records == 0
    assert "corrupt_gzip" in rules


@pytest.mark.parametrize("at", range(1, 40))
def test_every_division_of_the_stored_bytes_is_read_alike(at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members and magic numbers may lie across the border of two chunks."""
    monkeypatch.setattr(module, "_CHUNK", at)
    records = [record_text(1)]
    content = document(records)
    reading = read(listed(land(tmp_path, packed(content[:9]) + packed(b"") + packed(content[9:]) + b"\x1f\x8c", "a.json.gz")))
    assert (texts(reading), reading.notes) == (records, "2 bytes after the end of the gzip stream were not read")


def test_a_rewritten_file_is_changed(tmp_path: Path) -> None:
    entry = listed(land(tmp_path, packed(document([record_text(1)])), log_path()))
    land(tmp_path, packed(document([record_text(1), record_text(2)])), log_path())
    reading = read(entry)
    assert (reading.rule, reading.heals, reading.records, reading.sha256) == ("changed", True, 0, None)


def test_a_file_rewritten_with_as_many_bytes_is_changed(tmp_path: Path) -> None:
    stored = packed(document([record_text(1)]))
    entry = listed(land(tmp_path, stored, log_path()))
    os.utime(entry.path, ns=(0, int(entry.version) + 1))
    assert read(entry).rule == "changed"


def test_a_file_of_another_size_is_changed_though_its_time_is_the_same(tmp_path: Path) -> None:
    entry = listed(land(tmp_path, packed(document([record_text(1)])), log_path()))
    land(tmp_path, packed(document([record_text(1), record_text(2)])), log_path())
    os.utime(entry.path, ns=(0, int(entry.version)))
    reading = read(entry)
    assert (reading.rule, reading.records) == ("changed", 0)
    assert reading.reason is not None and f"{entry.size:,} bytes were listed and it has" in reading.reason


def test_a_store_that_gives_fewer_bytes_than_it_lists_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where what it gives is a whole document."""
    whole = document([record_text(1)])
    entry = listed(land(tmp_path, whole + b"\n\n", log_path(suffix=".json")))
    monkeypatch.setattr("fsspec.implementations.local.LocalFileSystem.open", lambda *_, **__: io.BytesIO(whole))
    assert (read(entry).rule, read(entry).records) == ("changed", 0)


def test_a_file_that_grows_while_it_is_read_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = land(tmp_path, packed(document([record_text(1)])), log_path())
    entry = listed(file)
    _while_reading(monkeypatch, lambda: land(tmp_path, file.read_bytes() + b"more", log_path()))
    reading = read(entry)
    assert (reading.rule, reading.heals, reading.records) == ("changed", True, 0)


def test_a_file_that_is_removed_while_it_is_read_has_vanished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = land(tmp_path, packed(document([record_text(1)])), log_path())
    entry = listed(file)
    _while_reading(monkeypatch, file.unlink)
    assert read(entry).rule == "vanished"


def test_a_file_that_is_gone_has_vanished(tmp_path: Path) -> None:
    file = land(tmp_path, packed(document([record_text(1)])), log_path())
    entry = listed(file)
    file.unlink()
    reading = read(entry)
    assert (reading.rule, reading.heals, reading.bytes) == ("vanished", True, None)


def test_a_forbidden_file_is_unreadable_and_later_read(tmp_path: Path) -> None:
    """In a process without the rights of root, who may read everything."""
    file = land(tmp_path, packed(document([record_text(1)])), log_path())
    file.chmod(0)
    for folder in [tmp_path, *tmp_path.parents][:-2]:
        if folder.stat().st_uid == os.getuid() and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)
    entry = listed(file)
    program = (
        "import os, sys\n"
        "from spark_jobs.io.landed_file import LandedFile\n"
        "from spark_jobs.io.read_landed_file import read_landed_file\n"
        "import spark_jobs.io.record_walk, fsspec.implementations.local\n"
        "if os.getuid() == 0: os.setgid(65534), os.setuid(65534)\n"
        f"entry = LandedFile({entry.path!r}, {entry.size}, {entry.version!r}, {entry.file_id!r})\n"
        "reading = read_landed_file(entry, records_key='Records', max_inflated_bytes=1000000)\n"
        "print(reading.rule, reading.heals, reading.records, reading.reason)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]).stdout
    assert said.startswith("unreadable True 0 This user may not read the file")
    file.chmod(0o644)
    assert read(entry).records == 1


def test_a_fault_of_the_store_is_the_files_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = listed(land(tmp_path, packed(document([record_text(1)])), log_path()))

    def broken(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("fsspec.implementations.local.LocalFileSystem.open", broken)
    reading = read(entry)
    assert (reading.rule, reading.heals) == ("unreadable", True)
    assert reading.reason is not None and "Input/output error" in reading.reason


@pytest.mark.parametrize(("fault", "heals"), [(ZeroDivisionError("a surprise"), False), (MemoryError(), True)])
def test_an_unforeseen_fault_is_the_files_outcome(
    fault: BaseException, heals: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = listed(land(tmp_path, packed(document([record_text(1)])), log_path()))

    def surprise(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(module, "split_document", surprise)
    reading = read(entry)
    assert (reading.rule, reading.heals, reading.records) == ("unexpected", heals, 0)
    if isinstance(fault, ZeroDivisionError):
        assert reading.reason is not None and "ZeroDivisionError: a surprise" in reading.reason


@pytest.mark.parametrize("name", ["with space.json.gz", "a::b.json.gz", "100%.json.gz", "#1?.json.gz", "[a]*.json.gz", "ü.json.gz"])
def test_a_name_is_only_a_name(name: str, tmp_path: Path) -> None:
    assert read(listed(land(tmp_path, packed(document([record_text(1)])), name))).records == 1


def test_a_url_is_read_through_its_file_system() -> None:
    store = fsspec.filesystem("memory")
    stored = packed(document([record_text(1), record_text(2)]))
    store.pipe_file("/landing/a.json.gz", stored)
    version = object_version(store, store.info("/landing/a.json.gz"))
    entry = LandedFile("memory://landing/a.json.gz", len(stored), version, "f")
    assert read(entry).records == 2
    store.pipe_file("/landing/a.json.gz", stored)
    assert read(entry).rule == "changed"
    store.rm("/landing/a.json.gz")
    assert read(entry).rule == "vanished"


def test_a_store_is_asked_each_time() -> None:
    """S3's file system would answer from a listing it made earlier, and a rewritten object would look unchanged."""
    assert not file_system_of("s3://bucket/landing/a.json.gz").dircache.use_listings_cache


def test_a_version_is_the_stores_tag_or_the_modification_time(tmp_path: Path) -> None:
    store = fsspec.filesystem("memory")
    assert object_version(store, {"name": "a", "ETag": '"0af3-2"', "LastModified": "x"}) == "0af3-2"
    assert object_version(store, {"name": "a", "etag": "0xFE"}) == "0xFE"
    file = land(tmp_path, b"x", "a")
    os.utime(file, ns=(1, 1_700_000_000_123_456_789))
    local = fsspec.filesystem("file")
    assert object_version(local, local.info(str(file))) == "1700000000123456789"


def test_a_file_id_names_one_version_of_one_object() -> None:
    ids = {file_id("a", 1, "v"), file_id("b", 1, "v"), file_id("a", 2, "v"), file_id("a", 1, "w")}
    assert len(ids) == 4
    assert file_id("a", 1, "v") == hashlib.blake2b(b"a|1|v", digest_size=16).hexdigest()


def _while_reading(monkeypatch: pytest.MonkeyPatch, happens: object) -> None:
    """Lets something happen to the file after it was compared with the listing and before it is compared again."""
    original = module._StoredFile._still_as_listed
    looks = iter((False, True))

    def look(self: module._StoredFile) -> object:
        if next(looks):
            happens()  # type: ignore[operator]
        return original(self)

    monkeypatch.setattr(module._StoredFile, "_still_as_listed", look)
