"""What all DAGs of a pipeline have in common: name, owner, tags, failure callbacks, one run at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG

from dags.factory.failure import SayFailure
from dags.factory.notifier import TellNow
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings

FIRST_INTERVAL = datetime(2023, 1, 1, tzinfo=UTC)  # without catch-up, only a lower bound


def pipeline_dag(pipeline: Pipeline, settings: Settings, *, kind: str, page: str, tells: bool = True, **how: Any) -> DAG:
    """The DAG `<pipeline>_<kind>`, empty. `page` is the text on its page; `how` goes to Airflow as it is and may override.

    Each failure is recorded, also of a try that is tried again, and with `tells` told at once; so is what is over when a run succeeds.
    """
    say = SayFailure(settings.home.absolute())
    now = [TellNow(pipeline.name)] if tells else []
    defaults: dict[str, Any] = {
        "description": pipeline.description,
        "schedule": None,
        "start_date": FIRST_INTERVAL,
        "catchup": False,
        "max_active_runs": 1,  # one writer per table
        "dagrun_timeout": timedelta(hours=6),
        "default_args": {
            "owner": pipeline.owner,
            "on_failure_callback": [say.of_task, *now],
            "on_retry_callback": [say.of_retry, *now],
            "on_success_callback": say.of_success,
        },
        "tags": ["assay", *pipeline.tags],
        "doc_md": page,
        "on_failure_callback": [say.of_run, *now],
        "on_success_callback": [say.of_green_run, *now],
    }
    return DAG(dag_id=f"{pipeline.name}_{kind}", **(defaults | how))
