"""The installation's part of `assay doctor`: Java, jars, archive, memory, disks, rights, ports, clock. Each finding says how to mend it.

Quick (three seconds at most, nearly all of it one JVM that is asked whether it can map the archive), and changes nothing.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
import time
import xml.etree.ElementTree as Xml
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from spark_jobs.cli.airflow_home import PROJECT
from spark_jobs.cli.installation_airflow import airflow_findings
from spark_jobs.io.java import check_java
from spark_jobs.io.java_options import archive_file, is_archive_mapped
from spark_jobs.io.lake import storage
from spark_jobs.spec.errors import AssayError
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import BOOKS, RUNS, SWEEPS

PYTHONS = ((3, 11), (3, 13))  # the oldest and the newest that all libraries were tested with
LOW_BYTES, FULL_BYTES = 5_000_000_000, 500_000_000  # a day of a large trail; a batch and its checkpoint
AHEAD_S = 120  # clocks of two machines that are set by NTP differ by far less
BESIDE_THE_HEAP = 1.5  # a driver takes half as much again: Python workers, Arrow, code


@dataclass(frozen=True)
class Part:
    """One part of the installation. `mend` is empty where nothing is to be done."""

    part: str
    state: Literal["ok", "note", "wrong"]
    sentence: str
    mend: str = ""


def examine(settings: Settings, environment: Mapping[str, str] = os.environ) -> list[Part]:
    """Every part, in the order in which a run needs them; a check that fails itself is a finding, not an end."""
    checks: list[tuple[str, Callable[[], Iterator[Part]]]] = [
        ("python", _python),
        ("java", lambda: _java(settings, environment)),
        ("jars", lambda: _jars(settings)),
        ("archive", lambda: _archive(settings)),
        ("memory", lambda: _memory(settings)),
        ("landing", lambda: _landing(settings)),
        ("folders", lambda: _folders(settings)),
        ("clock", lambda: _clock(settings)),
        ("ports", lambda: _ports(settings, environment)),
        ("settings", lambda: _settings(environment)),
        ("airflow", lambda: (Part("airflow", *found) for found in airflow_findings(settings))),
    ]
    found: list[Part] = []
    for name, check in checks:
        try:
            found += list(check())
        except Exception as fault:
            said = (str(fault).strip().splitlines() or [type(fault).__name__])[0]
            found.append(Part(name, "wrong", f"It cannot be looked at: {said}"))
    return found


def _python() -> Iterator[Part]:
    version = sys.version_info[:2]
    if not PYTHONS[0] <= version <= PYTHONS[1]:
        yield Part("python", "wrong", f"Python {version[0]}.{version[1]} at {sys.executable} is not one of 3.11 to 3.13.", "make setup")
    else:
        yield Part("python", "ok", f"Python {version[0]}.{version[1]} at {sys.executable}.")


def _java(settings: Settings, environment: Mapping[str, str]) -> Iterator[Part]:
    own = settings.home.absolute() / "java"
    env = {**environment, "JAVA_HOME": str(own)} if (own / "bin" / "java").exists() else dict(environment)
    try:
        check_java(env)
    except AssayError as fault:
        yield Part("java", "wrong", str(fault), "make setup")
        return
    home = Path(env["JAVA_HOME"]) if "JAVA_HOME" in env else Path(str(shutil.which("java"))).resolve().parent.parent
    for name in ("release", "version"):
        if (home / name).is_file() and (said := re.search(r"\d+(?:\.\d+)*", (home / name).read_text(errors="replace"))):
            yield Part("java", "ok", f"Java {said[0]} at {home}.")
            return
    yield Part("java", "ok", f"Java at {home}.")


def _jars(settings: Settings) -> Iterator[Part]:
    listed = Xml.parse(PROJECT / "infra" / "jars" / "ivy.xml").getroot().iter("dependency")  # noqa: S314  # our own file
    wanted = {f"{one.attrib['name']}-{one.attrib['rev']}.jar" for one in listed}
    folder = settings.home.absolute() / "jars"
    present = {path.name for path in folder.glob("*.jar") if path.stat().st_size}
    if missing := sorted(wanted - present):
        yield Part("jars", "wrong", f"{folder} lacks {', '.join(missing)}.", "make setup")
    elif others := sorted(present - wanted):
        yield Part("jars", "note", f"{folder} also holds {', '.join(others)}, which this version does not list.", "make setup")
    else:
        yield Part("jars", "ok", f"All {len(wanted)} jars are in {folder}.")


def _archive(settings: Settings) -> Iterator[Part]:
    if archive_file(settings.home) is None:
        yield Part("archive", "note", "There is no class-data archive: each Spark start takes seconds longer.", "make setup")
    elif not is_archive_mapped(settings):
        yield Part("archive", "note", "The class-data archive does not fit this Java and these jars: starts are slower.", "make setup")
    else:
        yield Part("archive", "ok", "The class-data archive is mapped.")


def _memory(settings: Settings) -> Iterator[Part]:
    import psutil

    heap, whole = _bytes(settings.driver_memory), psutil.virtual_memory().total
    said = f"A driver's heap is {settings.driver_memory}, this machine has {whole / 1e9:.1f} GB"
    if heap * BESIDE_THE_HEAP > whole:
        yield Part("memory", "wrong", f"{said}: they do not go together.", "lower ASSAY_DRIVER_MEMORY and ASSAY_BATCH_MB")
    else:
        yield Part("memory", "ok", f"{said}.")


def _landing(settings: Settings) -> Iterator[Part]:
    root = settings.landing_root
    fs, path = storage(root)
    if not fs.exists(path):
        yield Part("landing", "note", f"{root} is not there yet, so nothing is listed.", "create it, or set ASSAY_LANDING")
        return
    fs.ls(path, detail=False)  # raises when this user may not list it
    yield Part("landing", "ok", f"{root} can be listed.")


def _folders(settings: Settings) -> Iterator[Part]:
    """What is written: rights and room. On an object store both show themselves only in writing."""
    places = {"home": str(settings.home.absolute()), "lake": settings.lake_root, "reports": str(settings.reports_root)}
    for name, place in places.items():
        if "://" in place:
            yield Part(name, "note", f"{place} is an object store: its rights and room show in the first run.")
            continue
        there = Path(place)
        while not there.exists():
            there = there.parent
        if locked := _unwritable(there, Path(place)):
            yield Part(name, "wrong", f"This user may not write {locked}.", f"grant it, or set ASSAY_{name.upper()} to another folder")
            continue
        free = shutil.disk_usage(there).free
        said = f"{place} has {free / 1e9:.1f} GB free"
        state: Literal["ok", "note", "wrong"] = "wrong" if free < FULL_BYTES else "note" if free < LOW_BYTES else "ok"
        yield Part(name, state, f"{said}.", "" if state == "ok" else "make room: `assay maintain` removes what nobody needs")


def _unwritable(there: Path, place: Path) -> Path | None:
    """The first of the folder and those below it, two deep, that this user may not write."""
    below = [there, *(one for pattern in ("*", "*/*") for one in place.glob(pattern) if one.is_dir())] if there == place else [there]
    return next((one for one in below[:2000] if not os.access(one, os.W_OK | os.X_OK) and not one.is_symlink()), None)


def _clock(settings: Settings) -> Iterator[Part]:
    """Leases, retries and lateness rest on the clock: it must not be behind what was written last."""
    newest = 0.0
    fs, root = storage(settings.lake_root)
    for table in (BOOKS, RUNS, SWEEPS):  # written by every run, and their logs are kept short
        log = f"{root}/{table.folder}/_delta_log"
        if not fs.exists(log):
            continue
        versions = [str(name) for name in fs.ls(log, detail=False) if re.fullmatch(r"\d{20}\.json", str(name).rsplit("/", 1)[-1])]
        for line in fs.cat_file(max(versions)).splitlines() if versions else ():
            if b"commitInfo" in line:
                newest = max(newest, json.loads(line)["commitInfo"].get("timestamp", 0) / 1000)
    now = time.time()
    said = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S} UTC, local zone {time.strftime('%Z')} (Assay works in UTC)"
    if newest > now + AHEAD_S:
        written = f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d %H:%M:%S}"
        yield Part("clock", "wrong", f"{said}, but the lake was written at {written}: the clock is behind.", "set the clock (NTP)")
    else:
        yield Part("clock", "ok", f"{said}.")


def _ports(settings: Settings, environment: Mapping[str, str]) -> Iterator[Part]:
    lock = settings.home / "airflow" / "in_use"
    wanted = {"ASSAY_PORT": environment.get("ASSAY_PORT", "8080")}
    if settings.metrics_port:
        wanted["ASSAY_METRICS_PORT"] = str(settings.metrics_port)
    for name, text in wanted.items():
        if not text.isdigit() or not 1 <= int(text) <= 65535:
            yield Part("ports", "wrong", f"{name}={text} is not a port.", "give a number from 1 to 65535")
            continue
        with socket.socket() as probe:
            probe.settimeout(1)
            is_taken = probe.connect_ex(("127.0.0.1", int(text))) == 0
        if not is_taken:
            yield Part("ports", "ok", f"Port {text} ({name}) is free.")
        else:
            by = " (by `make up`, if it runs from this folder)" if lock.exists() and name == "ASSAY_PORT" else ""
            yield Part("ports", "note", f"Port {text} ({name}) is in use{by}.", f"if it is another program's, set {name} to a free one")


def _settings(environment: Mapping[str, str]) -> Iterator[Part]:
    """Misspelt ones stop every command; what is not known at all and is not like any of ours is named here."""
    known = [f"ASSAY_{name.upper()}" for name in Settings.model_fields] + ["ASSAY_PORT", "ASSAY_PYTHON"]
    unknown = sorted(name for name in environment if name.startswith("ASSAY_") and name not in known)
    for name in unknown:
        meant = get_close_matches(name, known, 1, cutoff=0.7)
        yield Part(
            "settings",
            "note",
            f"{name} is set and is no setting.",
            f"{meant[0]} is one" if meant else "unset it, if it was meant for Assay",
        )
    if not unknown:
        given = sum(name in environment for name in known)
        yield Part("settings", "ok", f"{given} settings are given, all of them known.")


def _bytes(size: str) -> int:
    """Spark's `2g`, `512m` as bytes."""
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", size.strip().lower())
    return int(found[1]) * 1024 ** " kmgt".index(found[2] or " ") if found else 0
