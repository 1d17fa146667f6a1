"""Airflow DAG `cloudtrail_daily`: day windows, suites over whole tables, the audit and maintenance of AWS CloudTrail's tables."""

from dags.factory.daily_dag import daily_dag
from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE

dag = daily_dag(PIPELINE)
