"""Writes each change of a task's state as a JSON line to the file named by ASSAY_TASK_EVENTS, for whoever shows a run as it goes."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin


def _say(task_instance: Any, state: str, error: object = None) -> None:
    if file := os.environ.get("ASSAY_TASK_EVENTS"):
        line = {"at": time.time(), "dag_id": task_instance.dag_id, "run_id": task_instance.run_id, "task_id": task_instance.task_id}
        line |= {"state": state, "error": str(error) if error else None, "try": task_instance.try_number}
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(json.dumps(line) + "\n")


@hookimpl
def on_task_instance_running(previous_state: Any, task_instance: Any) -> None:
    _say(task_instance, "running")


@hookimpl
def on_task_instance_success(previous_state: Any, task_instance: Any) -> None:
    _say(task_instance, "success")


@hookimpl
def on_task_instance_skipped(previous_state: Any, task_instance: Any) -> None:
    _say(task_instance, "skipped")


@hookimpl
def on_task_instance_failed(previous_state: Any, task_instance: Any, error: object) -> None:
    is_final = task_instance.try_number > task_instance.max_tries or type(error).__name__ == "AirflowFailException"
    _say(task_instance, "failed" if is_final else "retry", error)


class AssayProgress(AirflowPlugin):
    """Registers this module as the listener; it does nothing where ASSAY_TASK_EVENTS is not set."""

    name = "assay_progress"
    listeners = [sys.modules[__name__]]  # noqa: RUF012
