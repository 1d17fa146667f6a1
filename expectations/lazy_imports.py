"""Keeps Great Expectations' import short.

Measured: 5.8 s of processor time as it is, 2.8 s this way. Left out are scipy.stats (1.5 s) and altair (0.6 s), which one expectation
each needs and we never use, and sqlalchemy (0.9 s), pyspark.ml (0.4 s) and botocore (0.2 s), which serve other data sources. What it
imports unconditionally gets a stand-in that fetches the real module when an attribute of it is first asked for; what it treats as
optional is answered with ModuleNotFoundError, which it takes for "not installed" — only for the thread that imports, only meanwhile.

Why not importlib.util.LazyLoader: before Python 3.12 the import statement itself touches the module's `__spec__`, which loads it.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

DEFERRED = ("altair", "scipy", "scipy.stats")  # parents first
OPTIONAL = ("sqlalchemy", "boto3", "botocore", "pyspark.ml", "pyspark.sql.connect")


class _Deferred(ModuleType):
    """Stands in for a module until one of its attributes is needed."""

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__") and attribute not in ("__path__", "__version__"):
            raise AttributeError(attribute)  # tools that look through sys.modules ask for these; that is no use of the module
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        module = importlib.import_module(self.__name__)
        return getattr(module, attribute)


class _NotForThisThread(MetaPathFinder):
    """Says that the optional modules are not there, to one thread."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if threading.get_ident() == self._thread and any(fullname == name or fullname.startswith(f"{name}.") for name in OPTIONAL):
            raise ModuleNotFoundError(f"{fullname} is not imported with Great Expectations", name=fullname)
        return None


@contextmanager
def short_imports() -> Iterator[None]:
    """Within it, this thread imports without the modules above. What is imported already stays as it is."""
    for name in DEFERRED:
        _defer(name)
    finder = _NotForThisThread()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def _defer(name: str) -> None:
    if name in sys.modules:
        return
    sys.modules[name] = stand_in = _Deferred(name)
    stand_in.__spec__ = ModuleSpec(name, loader=None)  # pyspark.testing asks find_spec, which raises for a module without one
    parent, _, child = name.rpartition(".")
    if isinstance(above := sys.modules.get(parent), _Deferred):
        setattr(above, child, stand_in)  # or `from scipy import stats` would load scipy to look for it
