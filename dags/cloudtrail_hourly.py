"""Airflow DAG `cloudtrail_hourly`: AWS CloudTrail files to events to hourly activity."""

from dags.factory.pipeline_dag import hourly_dag
from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE

dag = hourly_dag(PIPELINE)
