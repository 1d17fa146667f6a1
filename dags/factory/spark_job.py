"""The provider's SparkSubmitOperator, with a failure that reads as the job's own sentence."""

from __future__ import annotations

import re
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from dags.factory.commands import last_answer

OUR_FAULTS = range(1, 7)  # the exit codes of spark_jobs.spec.errors
# Faults of the configuration, the checkpoint and the books (spark_jobs.spec.errors): the next try would find the same.
NOT_HEALED_BY_TIME = frozenset({2, 4, 5})


class SparkJob(SparkSubmitOperator):
    """Runs one job by `spark-submit`; a non-zero exit becomes its sentence, and is retried only where that can help."""

    def execute(self, context: Any) -> None:
        try:
            super().execute(context)
        except AirflowException as fault:
            found = re.search(r"Error code is: (\d+)", str(fault))
            if found is None:
                raise
            raise said_fault(self.task_id, int(found[1]), _sentence(str(fault).splitlines()[1:])) from None


def _sentence(log_tail: list[str]) -> str:
    """A job's own sentence, else the last line that the driver wrote."""
    answer = last_answer(log_tail) or {}
    return str(answer.get("sentence") or next((line for line in reversed(log_tail) if line.strip()), ""))


def said_fault(job: str, exit_code: int, sentence: str) -> AirflowException:
    """The exception for a job that ended with an exit code: final where the next try would find the same.

    A job cut off by a signal or a crash has another code than our faults; what it said before is then not the reason.
    """
    if exit_code in OUR_FAULTS and sentence:
        text = sentence
    else:
        text = f"{job} ended with exit code {exit_code}" + (f", having said: {sentence}" if sentence else ".")
    return AirflowFailException(text) if exit_code in NOT_HEALED_BY_TIME else AirflowException(text)
