"""Airflow DAG `cloudtrail_quarantine_replay`: reads quarantined AWS CloudTrail records again with today's parser."""

from dags.factory.replay_dag import replay_dag
from spark_jobs.pipelines.cloudtrail.pipeline import PIPELINE

dag = replay_dag(PIPELINE)
