"""Serves the quality reports inside the API server, behind its login, and links them from the page of each run.

A file path on the server is of no use in a browser, and a static mount would skip the login: so each file goes through a route
that demands the right to see plugin pages and refuses every path outside the run's own report folder.
"""

from __future__ import annotations

import mimetypes
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import requires_access_view
from airflow.models.xcom import XComModel
from airflow.plugins_manager import AirflowPlugin
from fastapi import Depends, FastAPI, HTTPException
from fastapi import Path as UrlPath
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markdown_it import MarkdownIt
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

PLAN_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Backfill</title><style>
body{font:15px/1.5 system-ui;margin:2rem auto;max-width:62rem;padding:0 1rem;color:#1f2933;background:#fff}
table{border-collapse:collapse;margin:.5rem 0 1.5rem}th,td{padding:.3rem .8rem;border-bottom:1px solid #d9dee4;text-align:left}
td{font-variant-numeric:tabular-nums}thead th:empty{padding:0;border:0}h3{font-size:1.4rem}h4{margin:1.5rem 0 0}code{font-size:.9em}
</style><body>"""

# No generated documentation pages: they would be routes without the login.
app = FastAPI(title="Assay reports", docs_url=None, redoc_url=None, openapi_url=None)
seen_by_users = Depends(requires_access_view(AccessView.PLUGINS))
Name = Annotated[str, UrlPath(max_length=250)]


@app.get("/report/{dag_id}/{run_id}", dependencies=[seen_by_users])
def find_report(dag_id: Name, run_id: Name, session: SessionDep) -> Response:
    """Leads from a run to its report among all reports, where relative links to its siblings work; of a backfill shows the plan first."""
    page = _report_of(dag_id, run_id, session)
    plan = _plan_of(dag_id, run_id, session)
    if plan:
        return HTMLResponse(_as_page(plan, f"/assay/reports/{quote(page)}" if page else None), headers=HEADERS)
    return RedirectResponse(f"/assay/reports/{quote(page)}", status_code=307) if page else HTMLResponse(NOT_YET, 404, HEADERS)


@app.get("/reports/", dependencies=[seen_by_users])
@app.get("/reports/{file:path}", dependencies=[seen_by_users])
def serve_index(file: str = "index.html") -> Response:
    """The index of all reports, and what it links to."""
    return _send(load_settings().reports_root, file or "index.html")


def _report_of(dag_id: str, run_id: str, session: SessionDep) -> str | None:
    """The page that the run's `report` task named, as a path below the folder of reports; None if there is none there."""
    found = _said(dag_id, run_id, "report", session).get("report")
    if not found:
        return None
    page, root = Path(found).resolve(), load_settings().reports_root.resolve()
    return str(page.relative_to(root)) if page.is_relative_to(root) and page.is_file() else None


def _plan_of(dag_id: str, run_id: str, session: SessionDep) -> str:
    """Markdown of what a backfill plans to do and of what came of it, the latest first; empty for other runs."""
    said = [_said(dag_id, run_id, task_id, session).get("markdown") for task_id in ("verify", "plan")]
    return "\n\n".join(str(text) for text in said if text)


def _said(dag_id: str, run_id: str, task_id: str, session: SessionDep) -> dict[str, Any]:
    """The answer that a task of the run has left; empty when it left none."""
    query = select(XComModel).where(XComModel.dag_id == dag_id, XComModel.run_id == run_id, XComModel.task_id == task_id)
    row = session.scalars(query.where(XComModel.key == "return_value")).first()
    said = XComModel.deserialize_value(row) if row else None
    return said if isinstance(said, dict) else {}


def _as_page(markdown: str, report: str | None) -> str:
    """A self-contained page. HTML in the Markdown stays text."""
    link = f'<p><a href="{report}">Quality report of this run</a></p>' if report else ""
    return PLAN_PAGE + link + MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown) + "</body></html>"


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
