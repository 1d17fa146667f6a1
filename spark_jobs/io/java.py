"""The Java that Spark will be started with, looked at before it is: what Spark's launcher says of a wrong one helps nobody."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from spark_jobs.spec.errors import ConfigurationFault

SUPPORTED = (17, 21)  # the versions Spark 4.1 is tested with
_MEND = "Set JAVA_HOME to a Java 17 or 21, or run `make setup`, which finds or brings one."


def check_java(env: Mapping[str, str]) -> None:
    """Raises ConfigurationFault when JAVA_HOME (or else the PATH) does not lead to a Java that Spark runs on.

    The version is read from the `release` or `version` file beside the runtime; only where there is none, Java is asked (0.1 s).
    """
    home = env.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java", path=env.get("PATH"))
    if not found:
        raise ConfigurationFault(f"There is no Java: JAVA_HOME is not set and the PATH has none. {_MEND}")
    java = Path(found)
    where = f"JAVA_HOME ({home})" if home else f"The Java on the PATH ({java})"
    if not java.is_file():
        raise ConfigurationFault(f"{where} holds no Java: there is no {java}. {_MEND}")
    version = _noted_version(java.resolve().parent.parent) or _asked_version(java)
    if version is None:
        raise ConfigurationFault(f"{where} is not a working Java: it does not say its version. {_MEND}")
    if version not in SUPPORTED:
        raise ConfigurationFault(f"{where} is Java {version}, and Spark needs {' or '.join(map(str, SUPPORTED))}. {_MEND}")


def _noted_version(home: Path) -> int | None:
    for name, pattern in (("release", r'JAVA_VERSION="(\d+)'), ("version", r"(\d+)")):
        try:
            if found := re.search(pattern, (home / name).read_text()):
                return int(found[1])
        except (OSError, UnicodeDecodeError):
            continue
    return None


def _asked_version(java: Path) -> int | None:
    try:
        said = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)  # Java 8 says 1.8
    return int(found[1]) if found else None
