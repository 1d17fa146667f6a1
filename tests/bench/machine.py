"""What the figures were measured on: machine, load, versions, and whether the class-data archive can be mapped."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from spark_jobs.io.java_options import is_archive_mapped
from spark_jobs.spec.settings import Settings

PACKAGES = ("pyspark", "delta-spark", "deltalake", "great-expectations", "apache-airflow", "pyarrow", "msgspec", "chdb")


def describe(settings: Settings) -> list[str]:
    """Lines for the head of the report."""
    memory = psutil.virtual_memory()
    archive = "mapped: the driver takes its classes from it" if is_archive_mapped(settings) else "NOT mapped: `make setup` builds it"
    return [
        f"Machine   {_cpu_model()}, {os.cpu_count()} cores, {memory.total / 1e9:.0f} GB of memory, {memory.available / 1e9:.0f} GB free",
        f"System    {platform.system()} {platform.release()}, Python {sys.version.split()[0]}, Java {_java(settings)}",
        f"Versions  {', '.join(f'{name} {_version(name)}' for name in PACKAGES)}",
        f"Archive   {archive}",
        f"Settings  master {settings.master}, driver heap {settings.driver_memory}",
    ]


def load() -> str:
    return " ".join(f"{average:.1f}" for average in os.getloadavg())


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _java(settings: Settings) -> str:
    binary = settings.home.absolute() / "java" / "bin" / "java"
    said = subprocess.run([str(binary) if binary.is_file() else "java", "-version"], capture_output=True, text=True).stderr
    return said.split('"')[1] if '"' in said else "none"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"
