"""Builds the class-data archive of the Spark driver: classes already parsed and verified, mapped at start instead of loaded.

Two steps, which need no archive shipped with the runtime: a training job writes the list of classes it loaded, then the JVM
dumps those into `<state>/java/driver.jsa`. Source: "Class Data Sharing", the `java` command's manual, versions 17 and 21.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from infra.setup.java import Java
from spark_jobs.io.java_options import SMALL
from spark_jobs.spec.errors import ConfigurationFault

ROOT = Path(__file__).resolve().parents[2]
TRAINING = (str(ROOT / "infra" / "java" / "training_job.py"),)  # application and arguments; {scratch} is a folder to write in


def ensure_archive(state: Path, java: Java, training: Sequence[str] = TRAINING) -> None:
    """Build the archive unless the one there was made by this Java from these jars and this training job.

    A failure is said and survived: everything works without the archive, only slower.
    """
    archive, key_file = state / "java" / "driver.jsa", state / "java" / "driver.key"
    key = archive_key(java, [state / "jars", spark_home() / "jars"], Path(training[0]))
    class_path = state / "java" / "class_path"
    if archive.is_file() and class_path.is_file() and key_file.is_file() and key_file.read_text() == key:
        return
    print("Set-up: building the class-data archive, which makes each Spark start faster (a minute or two) …", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=state) as scratch:
        fault = _train(state, java, [part.replace("{scratch}", scratch) for part in training], Path(scratch))
        fault = fault or _dump(state, java, Path(scratch))
        if fault:
            (state / "java" / "archive.log").write_text(fault)
            print(f"Set-up: the archive could not be built ({state}/java/archive.log says why); starts will be slower.", file=sys.stderr)
            return
        os.replace(Path(scratch) / "driver.jsa", archive)
    key_file.write_text(key)


def archive_key(java: Java, jar_folders: Sequence[Path], training_job: Path) -> str:
    """A digest of all that an archive depends on; jars in directory order, since the JVM's class path has that order."""
    parts = [java.version, training_job.read_text()]
    for folder in jar_folders:
        with os.scandir(folder) as entries:
            parts += [f"{entry.path}|{entry.stat().st_size}|{entry.stat().st_mtime_ns}" for entry in entries]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


def spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigurationFault("pyspark is not installed in the environment; run the set-up again.")
    return Path(spec.origin).parent


def _train(state: Path, java: Java, training: Sequence[str], scratch: Path) -> str:
    """Run the training job as the DAG runs a job; leaves its list of classes in the scratch folder. Returns what went wrong."""
    command = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[2]", "--driver-memory", "1g"]
    command += ["--conf", f"spark.driver.extraClassPath={state / 'jars'}/*"]
    command += ["--conf", f"spark.driver.extraJavaOptions=-XX:DumpLoadedClassList={scratch / 'classes'} -Xshare:auto {SMALL}"]
    env = os.environ | {"JAVA_HOME": str(java.home), "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home())}
    env |= {"ASSAY_HOME": str(state), "ASSAY_SCRATCH": str(scratch), "SPARK_PRINT_LAUNCH_COMMAND": "1"}
    ran = subprocess.run([*command, *training], env=env, cwd=ROOT, capture_output=True, text=True)
    launched = re.search(r"^Spark Command: \S+ -cp (\S+)", ran.stdout + ran.stderr, re.MULTILINE)
    if ran.returncode or not launched:
        return f"The training job ended with {ran.returncode}.\n{ran.stdout}\n{ran.stderr}"
    (state / "java" / "class_path").write_text(launched[1])
    return ""


def _dump(state: Path, java: Java, scratch: Path) -> str:
    command = [str(java.binary), "-Xshare:dump", "-XX:+UseSerialGC", f"-XX:SharedClassListFile={scratch / 'classes'}"]
    command += [f"-XX:SharedArchiveFile={scratch / 'driver.jsa'}", "-cp", (state / "java" / "class_path").read_text()]
    ran = subprocess.run(command, capture_output=True, text=True)
    done = ran.returncode == 0 and (scratch / "driver.jsa").is_file()
    return "" if done else f"The dump ended with {ran.returncode}.\n{ran.stdout}\n{ran.stderr}"
