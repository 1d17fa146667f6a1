"""The reference set: 200 gz files of 1,000 CloudTrail-like records each, about 283 MB of JSON, the same on every machine.

Each record is a real one of the shipped sample with ids, time, account, region, principal, address and parameters changed, so that sizes,
nesting and the mix of services are those of real files. 1 % of the records are re-deliveries: the same text again in a later file.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import re
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

VERSION = 1  # of what this module writes: a change of it makes new sets
SEED = 20240304
SAMPLE = Path(__file__).parents[2] / "infra" / "sample" / "cloudtrail"

RECORDS = 1000
REDELIVERED = RECORDS // 100
DETAIL = ("{:.32}" + "-resource" * 11).format  # a parameter that brings the records, 1,264 bytes in the sample, to 1,415: 283 MB
ACCOUNTS = ("111122223333", "210987654321", "345678901234", "456789012345")
REGIONS = ("us-east-1", "eu-west-1", "eu-central-1", "ap-southeast-2", "sa-east-1")
DAYS = 4
START = datetime(2024, 3, 4, tzinfo=UTC)
_GRID_MIN = 5  # CloudTrail delivers about every 5 minutes; records are up to 15 minutes old


@dataclass(frozen=True)
class LandedSet:
    """One generated set: the folder that has the AWSLogs layout, its files in the order of delivery, and their sizes."""

    folder: Path
    files: tuple[Path, ...]
    raw_bytes: int
    gz_bytes: int

    def land(self, landing: Path) -> list[Path]:
        """Link the files into a landing folder; returns the new paths."""
        landed = []
        for file in self.files:
            target = landing / file.relative_to(self.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.hardlink_to(file)
            landed.append(target)
        return landed


def reference_set(cache: Path, number: int = 0, *, files: int = 200) -> LandedSet:
    """Set `number` covers the DAYS days after those of the set before it. Made once, then found in the cache."""
    return _cached(cache, f"set-{number}-{files}", lambda folder: _write(folder, number, range(files), files))


def hourly_files(cache: Path, after: int = 0, *, files: int = 2) -> LandedSet:
    """The next hour's `files` after set `after`: what a small hourly run finds. 1 % of it was delivered with that set."""
    return _cached(cache, f"hour-{after}-{files}", lambda folder: _write(folder, after, range(200, 200 + files), 200))


def large_file(cache: Path, raw_mb: int = 200) -> LandedSet:
    """One gz file that inflates to about `raw_mb` MB."""

    def write(folder: Path) -> int:
        stream = _Records(number=99, files=1)
        records: list[str] = []
        size = 0
        while size < raw_mb * 1_000_000:
            more = stream.file(0, redeliver=False)
            records += more
            size += sum(map(len, more)) + len(more)
        return _write_file(folder / _name(99, 0, 1), records)

    return _cached(cache, f"large-{raw_mb}", write)


def _cached(cache: Path, name: str, write: Any) -> LandedSet:
    folder = cache / f"{name}-v{VERSION}-seed{SEED}"
    facts = folder / "set.json"
    if not facts.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        raw = write(folder)
        facts.write_text(json.dumps({"raw_bytes": raw}))
    files = tuple(sorted(folder.rglob("*.gz"), key=lambda file: file.name.split("_")[3:]))
    return LandedSet(folder, files, json.loads(facts.read_text())["raw_bytes"], sum(file.stat().st_size for file in files))


def _write(folder: Path, number: int, wanted: range, files: int) -> int:
    stream = _Records(number, files)
    size = 0
    for index in range(wanted.stop):
        records = stream.file(index)
        if index in wanted:
            size += _write_file(folder / _name(number, index, files), records)
    return size


def _write_file(path: Path, records: list[str]) -> int:
    content = f'{{"Records":[{",".join(records)}]}}'.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, compresslevel=6, mtime=0))
    return len(content)


def _place(index: int) -> tuple[str, str]:
    return ACCOUNTS[index % len(ACCOUNTS)], REGIONS[index // len(ACCOUNTS) % len(REGIONS)]


def _delivered_at(number: int, index: int, files: int) -> datetime:
    """Files are spread evenly over the set's days."""
    minute = (index * DAYS * 1440 // files) // _GRID_MIN * _GRID_MIN
    return START + timedelta(days=number * DAYS, minutes=minute)


def _name(number: int, index: int, files: int) -> str:
    account, region = _place(index)
    at = _delivered_at(number, index, files)
    mark = hashlib.blake2b(f"{SEED}|{number}|{index}".encode(), digest_size=8).hexdigest()
    return f"AWSLogs/{account}/CloudTrail/{region}/{at:%Y/%m/%d}/{account}_CloudTrail_{region}_{at:%Y%m%dT%H%MZ}_{mark}.json.gz"


class _Records:
    """The records of a set, file by file in order of delivery."""

    def __init__(self, number: int, files: int) -> None:
        self._number, self._files = number, files
        self._random = random.Random(f"{SEED}|{number}")
        self._templates = _templates()
        self._earlier: dict[tuple[str, str], list[str]] = {}

    def file(self, index: int, *, redeliver: bool = True) -> list[str]:
        chance = self._random
        account, region = _place(index)
        delivered = _delivered_at(self._number, index, self._files)
        records = [self._record(account, region, delivered) for _ in range(RECORDS)]
        earlier = self._earlier.get((account, region), [])
        if redeliver and earlier:
            for position in chance.sample(range(RECORDS), REDELIVERED):
                records[position] = chance.choice(earlier)
        self._earlier[account, region] = records
        return records

    def _record(self, account: str, region: str, delivered: datetime) -> str:
        chance = self._random
        bits = chance.getrandbits(512)
        text = f"{bits:0128x}"
        user = min(int(chance.expovariate(0.12)), 60)  # a few principals do most of the work
        values = {
            "time": (delivered - timedelta(seconds=bits % 900)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "event": f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}",
            "request": f"{text[32:40]}-{text[40:44]}-{text[44:48]}-{text[48:52]}-{text[52:64]}",
            "region": region,
            "account": account,
            "user": f"engineer-{user:02d}",
            "address": f"10.{user}.{bits % 7}.{bits % 11}",
            "detail": DETAIL(text[64:]),
        }
        return chance.choice(self._templates) % values


class LiveRecords:
    """Records of any moment, without re-deliveries; each process has its own."""

    def __init__(self) -> None:
        self._stream = _Records(number=random.SystemRandom().randrange(10**9), files=1)

    def of(self, account: str, region: str, delivered: datetime, count: int) -> list[str]:
        return [self._stream._record(account, region, delivered) for _ in range(count)]


def _templates() -> list[str]:
    """The sample's records as %-templates for time, event, request, region, account, user, address and detail."""
    templates = []
    for file in sorted(SAMPLE.rglob("*.gz")):
        for record in json.loads(gzip.decompress(file.read_bytes()))["Records"]:
            templates.append(_template(record))
    return templates


def _template(record: dict[str, Any]) -> str:
    identity = record.get("userIdentity") or {}
    account = record.get("recipientAccountId") or identity.get("accountId")
    user = identity.get("userName")
    record |= {"eventTime": "@time@", "eventID": "@event@", "requestID": "@request@", "awsRegion": "@region@"}
    if record.get("sourceIPAddress", "")[:1].isdigit():
        record["sourceIPAddress"] = "@address@"
    record["requestParameters"] = {**(record.get("requestParameters") or {}), "correlation": "@detail@"}
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    if account:
        text = text.replace(account, "@account@")
    if user:
        text = text.replace(f'"{user}"', '"@user@"').replace(f"user/{user}", "user/@user@")
    return re.sub(r"@(time|event|request|region|account|user|address|detail)@", r"%(\1)s", text.replace("%", "%%"))
