"""Airflow DAG `cloudtrail_backfill`: brings the history of AWS CloudTrail's files, records or windows in, planned and approved first."""

from dags.factory.backfill_dag import backfill_dag
from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE

dag = backfill_dag(PIPELINE)
