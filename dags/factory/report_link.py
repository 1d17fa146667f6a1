"""The link from a run's `report` task to the report page that the API server serves (see infra/airflow/plugins)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

REPORT_PAGE = "/assay/report"


def report_url(dag_id: str, run_id: str) -> str:
    return f"{REPORT_PAGE}/{quote(dag_id, safe='')}/{quote(run_id, safe='')}"


class ReportLink(BaseOperatorLink):
    """A button on the `report` task of every run."""

    name = "Quality report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return report_url(ti_key.dag_id, ti_key.run_id)
