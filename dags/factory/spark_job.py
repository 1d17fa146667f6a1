"""The provider's SparkSubmitOperator, with a failure that reads as the job's own sentence."""

from __future__ import annotations

import re
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from dags.factory.commands import guarded_task, last_answer

OUR_FAULTS = range(1, 9)  # the exit codes of spark_jobs.spec.errors
# Faults of the configuration, the checkpoint and the books, a gate that stopped, a crash loop (spark_jobs.spec.errors): the next try finds
# the same.
NOT_HEALED_BY_TIME = frozenset({2, 4, 5, 6, 8})

_OWN_LINE = re.compile(r"\d\d:\d\d:\d\d ")  # as spark_jobs.jobs.run says things; Spark's own begin with the date


class SparkJob(SparkSubmitOperator):
    """Runs one job by `spark-submit`; a non-zero exit becomes its sentence, and is retried only where that can help.

    XCom: the job's answer. `runs_if` is a template: rendered to anything but True the task is skipped, and no JVM is started.
    """

    template_fields = (*SparkSubmitOperator.template_fields, "runs_if")

    def __init__(self, *, runs_if: str = "True", **how: Any) -> None:
        super().__init__(**how)
        self.runs_if = runs_if

    def execute(self, context: Any) -> dict[str, Any] | None:  # type: ignore[override]  # the provider's own is typed as answering nothing
        if self.runs_if != "True":
            raise AirflowSkipException(f"{self.task_id} has nothing to do; the first task of the run says why.")
        self.env_vars = {**(self.env_vars or {}), **guarded_task()}
        try:
            super().execute(context)
        except AirflowException as fault:
            found = re.search(r"Error code is: (\d+)", str(fault))
            if found is None:
                raise
            raise said_fault(self.task_id, int(found[1]), _sentence(str(fault).splitlines()[1:])) from None
        return last_answer(list(self._hook._last_submit_log_lines)) if self._hook else None


def _sentence(log_tail: list[str]) -> str:
    """A job's own sentence, else the last line that it wrote itself, else the last line at all, which may be of a stack trace."""
    answer = last_answer(log_tail) or {}
    lines = [line for line in reversed(log_tail) if line.strip()]
    return str(answer.get("sentence") or next(filter(_OWN_LINE.match, lines), next(iter(lines), "")))


def said_fault(job: str, exit_code: int, sentence: str) -> AirflowException:
    """The exception for a job that ended with an exit code: final where the next try would find the same.

    A job cut off by a signal or a crash has another code than our faults; what it said before is then not the reason.
    """
    if exit_code in OUR_FAULTS and sentence:
        text = sentence
    else:
        text = f"{job} ended with exit code {exit_code}" + (f", having said: {sentence}" if sentence else ".")
    return AirflowFailException(text) if exit_code in NOT_HEALED_BY_TIME else AirflowException(text)
