"""Making a run of another DAG, once for one subject, from inside a task."""

from __future__ import annotations

from itertools import count
from typing import Any

OPEN = ("queued", "running")


def open_run(ti: Any, dag_id: str, run_id: str, *, conf: dict[str, Any], note: str) -> str | None:
    """Make a run of `dag_id` named `run_id`, with a note on its page; returns its id, or None when there is an open one already.

    When earlier runs of that name have ended, the new one has a number behind its name.
    """
    # The operator for this makes one run for one task, known before the task starts; how many there are to make is known only now.
    from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    for number in count(1):
        name = run_id if number == 1 else f"{run_id}~{number}"
        if ti.get_dr_count(dag_id=dag_id, run_ids=[name], states=list(OPEN)):
            return None
        if ti.get_dr_count(dag_id=dag_id, run_ids=[name]):
            continue
        made = SUPERVISOR_COMMS.send(TriggerDagRun(dag_id=dag_id, run_id=name, conf=conf, note=note))
        return None if isinstance(made, ErrorResponse) else name  # another task was quicker by a moment
    return None
