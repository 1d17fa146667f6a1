"""Airflow DAG `cloudtrail_watch`: what must be told about the CloudTrail pipeline, and that it is over."""

from dags.factory.watch_dag import watch_dag
from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE

dag = watch_dag(PIPELINE)
