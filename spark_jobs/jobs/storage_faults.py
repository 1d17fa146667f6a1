"""Faults of the machine that any layer may meet, as one sentence: a full disk, a folder that may not be written, too little memory, a JVM
that was killed.

They surface as errors of Python, of delta-rs or of the JVM, the latter two as text only; so the texts are what is looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from traceback import walk_tb

from spark_jobs.spec.errors import StorageFault

_NOTHING_LOST = "What was committed stays, the rest is taken up by the next run."
_FULL = re.compile(r"no space left on device|disk quota exceeded|file too large|not enough space", re.IGNORECASE)
_DENIED = re.compile(r"permission ?denied|read-only file system", re.IGNORECASE)
_NOT_MADE = re.compile(r"mkdirs failed to create|DELTA_CANNOT_CREATE_LOG_PATH", re.IGNORECASE)  # the JVM does not say why
_MEMORY = re.compile(r"OutOfMemoryError|Java heap space|GC overhead limit", re.IGNORECASE)
_PLACE = re.compile(r"(?:file:)?(/[^\s:'\"(),\]}]+)")
_SYSTEM = re.compile(r"^/(?:proc|sys|dev)/|/site-packages/|\.py$|\.jar$")


def storage_fault(fault: BaseException, lake_root: str) -> StorageFault | None:
    """The sentence for a fault whose cause is the machine; None for any other."""
    if _is_jvm_gone(fault):
        return StorageFault(
            "The driver's JVM has ended in the middle of its work: it was killed, perhaps for want of memory on this machine. "
            + _NOTHING_LOST
        )
    for text in _texts(fault):
        place = _place(text, lake_root)
        if _FULL.search(text) or (_NOT_MADE.search(text) and os.access(_existing(place), os.W_OK)):
            return StorageFault(f"The disk of {place} is full. Make room, then run again. {_NOTHING_LOST}")
        if _DENIED.search(text) or _NOT_MADE.search(text):
            return StorageFault(f"This user may not write {place}. Grant it access, then run again. {_NOTHING_LOST}")
        if _MEMORY.search(text):
            return StorageFault(f"The driver's memory did not suffice: raise ASSAY_DRIVER_MEMORY or lower ASSAY_BATCH_MB. {_NOTHING_LOST}")
    return None


def _is_jvm_gone(fault: BaseException) -> bool:
    """The connection to the JVM broke, as opposed to one to some other server."""
    if not isinstance(fault, ConnectionError) and type(fault).__name__ != "Py4JNetworkError":
        return False
    return any("py4j" in frame.f_code.co_filename for frame, _ in walk_tb(fault.__traceback__))


def _texts(fault: BaseException | None) -> Iterator[str]:
    """What the fault and those that led to it say, first line by line where it was the JVM that failed."""
    seen: set[int] = set()
    while fault is not None and id(fault) not in seen:
        seen.add(id(fault))
        yield _headline(str(fault))
        if isinstance(fault, (OSError, MemoryError)):
            yield f"{fault} {getattr(fault, 'filename', None) or ''}"
        yield from _causes(fault)
        fault = fault.__cause__ or fault.__context__


def _headline(text: str) -> str:
    """Up to the JVM's stack trace or the query plan, which hold other people's words."""
    return re.split(r"\n\s*at |\n=== |\nJVM stacktrace", text, maxsplit=1)[0]


def _causes(fault: BaseException) -> Iterator[str]:
    """The `Caused by` lines of an error that came over from the JVM."""
    trace = "\n".join(str(part) for part in (fault, getattr(fault, "_stackTrace", "") or getattr(fault, "_cause", "") or ""))
    java = getattr(fault, "java_exception", None) or getattr(fault, "_origin", None)
    while java is not None:
        trace += f"\nCaused by: {java.toString()}"
        java = java.getCause()
    yield from re.findall(r"^Caused by: (.*)$", trace, re.MULTILINE)


def _place(text: str, lake_root: str) -> str:
    """The path that the text names, else where the lake is."""
    return next((found for found in _PLACE.findall(text) if not _SYSTEM.search(found)), lake_root)


def _existing(place: str) -> Path:
    """The nearest folder above a path that is there."""
    return next(folder for folder in (Path(place), *Path(place).parents) if folder.exists())
