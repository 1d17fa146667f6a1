"""Airflow DAG `cloudtrail_held`: a person decides about one held or stopped batch of AWS CloudTrail's tables."""

from dags.factory.held_dag import held_dag
from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE

dag = held_dag(PIPELINE)
