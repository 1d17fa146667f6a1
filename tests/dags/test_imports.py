"""DAG files are read every minute by the DAG processor, which has neither Spark nor Great Expectations: each in a fresh process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
DAG_FILES = sorted(file for file in (PROJECT / "dags").glob("*.py") if file.name != "__init__.py")
NOT_FOR_DAGS = {"pyspark", "delta", "deltalake", "great_expectations", "pandas", "pyarrow", "duckdb", "expectations"}
NOT_OURS_EITHER = ("spark_jobs.io", "spark_jobs.jobs", "spark_jobs.transforms", "spark_jobs.cli", "spark_jobs.report")
PROGRAM = """
import json, resource, runpy, sys
import airflow.sdk, airflow.providers.apache.spark.operators.spark_submit, airflow.providers.standard.operators.python
import airflow.providers.standard.operators.hitl
before, started = set(sys.modules), resource.getrusage(resource.RUSAGE_SELF).ru_utime
found = runpy.run_path(sys.argv[1])
seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime - started
print(json.dumps({"all": sorted(sys.modules), "new": sorted(set(sys.modules) - before), "seconds": seconds,
                  "dags": [value.dag_id for value in found.values() if type(value).__name__ == "DAG"]}))
"""


@pytest.mark.parametrize("file", DAG_FILES, ids=lambda file: file.name)
def test_importing_a_dag_file_loads_nothing_heavy(file, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        env={"AIRFLOW_HOME": str(tmp_path), "PATH": "/usr/bin"},
    )
    assert ran.returncode == 0, ran.stderr
    loaded = json.loads(ran.stdout.splitlines()[-1])
    assert loaded["dags"] == [file.stem], "a DAG file holds the DAG of its own name"
    assert not {name.split(".")[0] for name in loaded["all"]} & NOT_FOR_DAGS
    assert not [name for name in loaded["all"] if name.startswith(NOT_OURS_EITHER)]
    # Processor time, not wall time: 0.1 s was measured, and the processor pays it for each file every minute.
    assert loaded["seconds"] < 2


def test_the_dags_are_those_that_the_readme_names():
    assert [file.stem for file in DAG_FILES] == [
        "cloudtrail_backfill",
        "cloudtrail_continuous",
        "cloudtrail_daily",
        "cloudtrail_held",
        "cloudtrail_hourly",
        "cloudtrail_quarantine_replay",
        "cloudtrail_watch",
    ]
