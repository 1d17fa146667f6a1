"""Java options of the Spark driver: a class-data archive cuts its start, and the rest fits the size of the input.

Plain text work: neither a JVM nor pyspark is touched, so that discover and the command line can use it.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from spark_jobs.spec.settings import Settings

# A run of seconds never earns back what the optimising compiler and parallel collector threads cost.
SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LARGE = "-XX:+UseParallelGC"
LAUNCHER = "-Xshare:auto -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # for the short JVM in which spark-submit builds its command line


def archive_file(home: Path) -> Path | None:
    """The class-data archive of this environment, None when it has not been built."""
    archive = home.absolute() / "java" / "driver.jsa"
    return archive if archive.is_file() else None


def archive_options(settings: Settings, *, small: bool) -> str:
    """The value for `spark.driver.extraJavaOptions`, for pending input up to (small) or above `settings.small_mb`.

    The JVM ignores an archive that does not fit its class path or version, so a stale one costs time, never a failure.
    """
    sizing = SMALL if small else LARGE
    archive = archive_file(settings.home)
    if archive is None:
        return sizing
    return f"{shlex.quote(f'-XX:SharedArchiveFile={archive}')} -Xshare:auto {sizing}"


def driver_class_path(settings: Settings) -> str:
    """The value for `spark.driver.extraClassPath`: only jars on the system class path can come from the archive."""
    return f"{settings.home.absolute()}/jars/*"


def is_archive_mapped(settings: Settings) -> bool:
    """Ask a JVM whether it can map the archive on the driver's class path as it is today (0.3 s).

    A driver falls back without a word when the archive does not fit, so this is the only way to know.
    """
    archive = archive_file(settings.home)
    class_path = settings.home.absolute() / "java" / "class_path"  # as the training driver was started, wildcards not expanded
    if archive is None or not class_path.is_file():
        return False
    java = settings.home.absolute() / "java" / "bin" / "java"
    command = [str(java), f"-XX:SharedArchiveFile={archive}", "-Xshare:on", "-XX:+UseSerialGC", "-cp", class_path.read_text(), "-version"]
    return subprocess.run(command, capture_output=True).returncode == 0
