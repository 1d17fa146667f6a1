"""DAGs of both shapes, made as the DAG processor makes them: with settings from the environment, without a database."""

import json
import os
import sys

# Before Airflow is imported: a home of its own would be made in the user's folder.
os.environ.setdefault("AIRFLOW_HOME", "/tmp/assay-tests-airflow")
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")

import pytest

from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE
from spark_jobs.spec.settings import load_settings


@pytest.fixture(params=["each", "all"])
def shape(request):
    return request.param


@pytest.fixture
def dag(shape):
    from dags.factory.pipeline_dag import hourly_dag

    return hourly_dag(PIPELINE, load_settings(shape=shape))


@pytest.fixture
def answers(monkeypatch):
    """Let every job answer with this JSON and this exit code, after a line of log; returns the command lines asked."""
    from dags.factory import tasks

    asked = []

    def answer(said, exit_code=0):
        program = f"import sys; print('a line of log', file=sys.stderr); print({json.dumps(said)!r}); sys.exit({exit_code})"

        def command(job, **arguments):
            asked.append([job, *arguments.get("options", ())])
            return [sys.executable, "-c", program]

        monkeypatch.setattr(tasks, "job_command", command)
        return asked

    return answer
