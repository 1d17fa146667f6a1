"""Airflow DAG `cloudtrail_continuous`: AWS CloudTrail's files taken within seconds of their landing, in place of once an hour."""

from dags.factory.continuous_dag import continuous_dag
from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE

dag = continuous_dag(PIPELINE)
