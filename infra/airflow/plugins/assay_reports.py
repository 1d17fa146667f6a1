"""Serves the quality reports inside the API server, behind its login, and links them from the page of each run.

A file path on the server is of no use in a browser, and a static mount would skip the login: so each file goes through a route
that demands the right to see plugin pages and refuses every path outside the run's own report folder.
"""

from __future__ import annotations

import mimetypes
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import requires_access_view
from airflow.models.xcom import XComModel
from airflow.plugins_manager import AirflowPlugin
from fastapi import Depends, FastAPI, HTTPException
from fastapi import Path as UrlPath
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from sqlalchemy import select

from spark_jobs.spec.settings import load_settings

# Reports are escaped pages without scripts; should a value ever get through, the browser still runs nothing.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'self'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
NOT_YET = """<!doctype html><meta charset="utf-8"><title>No report yet</title>
<body style="font:16px system-ui;margin:3rem auto;max-width:40rem;padding:0 1rem">
<h1>No report yet</h1><p>The report is written at the end of the run, after a failure too.
If the run has ended, the log of its <code>report</code> task says why there is none.</p></body>"""

# No generated documentation pages: they would be routes without the login.
app = FastAPI(title="Assay reports", docs_url=None, redoc_url=None, openapi_url=None)
seen_by_users = Depends(requires_access_view(AccessView.PLUGINS))
Name = Annotated[str, UrlPath(max_length=250)]


@app.get("/report/{dag_id}/{run_id}", dependencies=[seen_by_users])
def find_report(dag_id: Name, run_id: Name, session: SessionDep) -> Response:
    """Leads from a run to its report among all reports, where relative links to its siblings work."""
    page = _report_of(dag_id, run_id, session)
    return RedirectResponse(f"/assay/reports/{quote(page)}", status_code=307) if page else HTMLResponse(NOT_YET, 404, HEADERS)


@app.get("/reports/", dependencies=[seen_by_users])
@app.get("/reports/{file:path}", dependencies=[seen_by_users])
def serve_index(file: str = "index.html") -> Response:
    """The index of all reports, and what it links to."""
    return _send(load_settings().reports_root, file or "index.html")


def _report_of(dag_id: str, run_id: str, session: SessionDep) -> str | None:
    """The page that the run's `report` task named, as a path below the folder of reports; None if there is none there."""
    query = select(XComModel).where(XComModel.dag_id == dag_id, XComModel.run_id == run_id, XComModel.task_id == "report")
    row = session.scalars(query.where(XComModel.key == "return_value")).first()
    said = XComModel.deserialize_value(row) if row else None
    if not isinstance(said, dict) or not said.get("report"):
        return None
    page, root = Path(said["report"]).resolve(), load_settings().reports_root.resolve()
    return str(page.relative_to(root)) if page.is_relative_to(root) and page.is_file() else None


def _send(folder: Path, file: str) -> Response:
    wanted = (folder / file).resolve()
    if not wanted.is_relative_to(folder.resolve()) or not wanted.is_file():
        raise HTTPException(404, "There is no such report.")
    kind = mimetypes.guess_type(wanted.name)[0] or "application/octet-stream"
    if kind.startswith("text/") or kind == "application/json":
        kind += "; charset=utf-8"
    return Response(wanted.read_bytes(), media_type=kind, headers=HEADERS)


class AssayReports(AirflowPlugin):
    """A tab on each run's page, and an entry in the menu."""

    name = "assay_reports"
    fastapi_apps = [{"app": app, "url_prefix": "/assay", "name": "Assay reports"}]  # noqa: RUF012  # Airflow's own form
    external_views = [  # noqa: RUF012
        {
            "name": "Quality report",
            "href": "/assay/report/{DAG_ID}/{RUN_ID}",
            "destination": "dag_run",
            "url_route": "quality_report",
        },
        {"name": "Quality reports", "href": "/assay/reports/", "destination": "nav", "category": "browse", "url_route": "quality_reports"},
    ]
