"""A job under spark-submit as Airflow's task runs it: under a process that stands for the task's runner, which can be killed.

`python -m tests.builders.task_runner <command …>` starts the command as `SparkJob` does, guarded, and reads its output.
"""

from __future__ import annotations

import os
import subprocess
import sys

from dags.factory.commands import guarded_task
from tests.builders.stack import PROJECT, Stack

SPARKS_OWN = tuple(f"{year:02d}/".encode() for year in range(24, 60))  # its log begins each line with the date


def start_task(stack: Stack, job: str, *options: str, **env: str) -> subprocess.Popen[bytes]:
    """The runner's process; its job is submitted to Spark and works on the stack's lake."""
    home = stack.settings.home
    words = stack.command(job, *options)
    submit = [
        str(PROJECT / ".assay" / "venv" / "bin" / "spark-submit"), "--master", stack.settings.master,
        "--conf", f"spark.driver.extraClassPath={home}/jars/*",
        "--conf", f"spark.driver.extraJavaOptions=-XX:SharedArchiveFile={home}/java/driver.jsa -Xshare:auto -XX:+UseSerialGC",
        "--driver-memory", "1g", "--deploy-mode", "client", str(PROJECT / "spark_jobs" / "jobs" / f"{job}.py"), *words[3:],
    ]  # fmt: skip
    environment = stack.environment({"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(home / "java"), "PYTHONPATH": str(PROJECT), **env})
    return subprocess.Popen([sys.executable, "-m", "tests.builders.task_runner", *submit], env=environment, cwd=PROJECT)


if __name__ == "__main__":
    with subprocess.Popen(sys.argv[1:], env={**os.environ, **guarded_task()}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as job:
        assert job.stdout is not None
        for line in job.stdout:
            if not line.startswith(SPARKS_OWN):
                sys.stderr.buffer.write(line)
                sys.stderr.flush()
    sys.exit(job.returncode)
