"""DAGs of both shapes, made as the DAG processor makes them: with settings from the environment, without a database."""

import os

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
