"""A generation of a checkpoint: what it belongs to, and where it begins when it was made from the tables instead of by a first start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

GENERATION_FILE = "assay.json"
TIDIED_FILE = "tidied.json"  # beside it: what the generation before had left was taken out
ENGINE_FILE = "engine.json"  # beside it: which Spark and Delta have started the query last
NOTHING_TAKEN = -1
BASE = 1


@dataclass(frozen=True, slots=True)
class Generation:
    """What a checkpoint belongs to; written into it before the query's first start.

    The last four say where one begins that was positioned from the tables (`assay doctor --rebuild`). Its batches 0 and 1 then stand for
    all that was consumed before, and are in no table. (Two, since Spark starts from where the last batch but one has ended.)
    """

    name: str  # v1, v2, …
    table: str
    source: str
    source_id: str  # the Delta table id of the source, so that a swapped table is noticed
    nonce: str  # makes the transaction id of this checkpoint unlike any other's
    created_at: str
    is_positioned: bool = False
    follows: str = ""  # the last batch that the table had when this was made: v1-00000003
    taken_until: int = NOTHING_TAKEN  # up to this source version some rows ahead may have been taken already: batches look for them
    voids: list[str] = field(default_factory=list)  # batches that the main table has not: what they left beside it is taken out

    @property
    def base(self) -> int:
        """The number of the last batch that counts as committed before the first one of this generation."""
        return BASE if self.is_positioned else -1

    @classmethod
    def read(cls, text: bytes) -> Generation:
        """Raises ValueError or TypeError for what is no generation file. What a later version of the code has added is left out."""
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in dict(json.loads(text)).items() if name in known})

    def text(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode()


@cache
def engine_versions() -> dict[str, str]:
    """The Spark and Delta that are installed here: `{"spark": "4.1.3", "delta": "4.4.0"}`; found without importing them."""
    found = {}
    for name, package in (("spark", "pyspark"), ("delta", "delta-spark")):
        try:
            found[name] = version(package)
        except PackageNotFoundError:
            continue
    return found


def recorded_engine(fs: AbstractFileSystem, generation: str) -> Mapping[str, Any]:
    """The versions that started the query last; empty for a checkpoint of older code, or when the file cannot be read."""
    try:
        return dict(json.loads(fs.cat_file(f"{generation}/{ENGINE_FILE}")))
    except (OSError, ValueError, TypeError):
        return {}


def record_engine(fs: AbstractFileSystem, generation: str) -> None:
    """Write the installed versions beside the generation, when they are not the ones that are there."""
    if recorded_engine(fs, generation) != engine_versions():
        write_whole(fs, f"{generation}/{ENGINE_FILE}", json.dumps(engine_versions()).encode())


def write_whole(fs: AbstractFileSystem, path: str, content: bytes) -> None:
    """A file that is there as a whole or not at all, also when this process is killed here."""
    fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
    fs.pipe_file(f"{path}.new", content)
    fs.mv(f"{path}.new", path)
