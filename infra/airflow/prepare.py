"""Makes Airflow's metadata database and the pools that Spark tasks go through. One process, since each Airflow command costs seconds."""

import sys

from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, State, TaskInstanceState
from sqlalchemy import select, update

# One slot: a driver takes all cores of a small machine, and a second one beside it only makes both slower.
SPARK_SLOTS = 1
# A driver of a continuous run keeps its slot; two of them leave half of the executor's four processes to everything else.
STREAM_SLOTS = 2


def end_stale_runs() -> None:
    """No Airflow process is alive when this is called, so a run that is at work was cut off: it and its tasks have failed.

    Not so a run that waits for a person (the question must outlive a restart), nor one that has not begun.
    """
    with create_session() as session:
        waiting = select(TaskInstance.run_id).where(
            TaskInstance.dag_id == DagRun.dag_id,
            TaskInstance.run_id == DagRun.run_id,
            TaskInstance.state == TaskInstanceState.AWAITING_INPUT,
        )
        stale = session.scalars(select(DagRun).where(DagRun.state == DagRunState.RUNNING, ~waiting.exists())).all()
        for run in stale:
            unfinished = TaskInstance.state.is_(None) | TaskInstance.state.in_([state for state in State.unfinished if state])
            session.execute(
                update(TaskInstance)
                .where(TaskInstance.dag_id == run.dag_id, TaskInstance.run_id == run.run_id, unfinished)
                .values(state=TaskInstanceState.FAILED)
                .execution_options(synchronize_session=False)
            )
            run.state = DagRunState.FAILED


if __name__ == "__main__":
    initdb()
    Pool.create_or_update_pool("spark", slots=SPARK_SLOTS, description="Spark drivers at one time", include_deferred=False)
    Pool.create_or_update_pool("stream", slots=STREAM_SLOTS, description="Drivers of continuous runs", include_deferred=False)
    if "--end-stale-runs" in sys.argv:
        end_stale_runs()
