"""The few questions we ask a running Airflow over its REST API, on the loopback interface."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from spark_jobs.spec.errors import ConfigurationFault


class AirflowApi:
    """A client of one API server that logs in when it is first asked something."""

    def __init__(self, port: int, user: str, password: str) -> None:
        self.base = f"http://127.0.0.1:{port}"
        self._login = {"username": user, "password": password}
        self._token = ""

    def is_up(self) -> bool:
        """True once the server answers and its database does."""
        try:
            with urllib.request.urlopen(f"{self.base}/api/v2/monitor/health", timeout=3) as answer:
                return bool(json.load(answer)["metadatabase"]["status"] == "healthy")
        except (OSError, ValueError, KeyError):
            return False

    def dag(self, dag_id: str) -> dict[str, Any] | None:
        """The DAG as Airflow knows it; None until the DAG processor has read its file."""
        return self._ask("GET", f"/dags/{dag_id}", missing_is_none=True)

    def switch(self, dag_id: str, *, on: bool) -> None:
        """Unpause or pause a DAG, as its switch on the page does."""
        self._ask("PATCH", f"/dags/{dag_id}?update_mask=is_paused", {"is_paused": not on})

    def runs(self, dag_id: str = "~") -> list[dict[str, Any]]:
        """The newest runs first, of one DAG or of all: dag_id, dag_run_id, state, run_type, start_date, end_date …"""
        answer = self._ask("GET", f"/dags/{dag_id}/dagRuns?order_by=-run_after&limit=100") or {}
        return list(answer.get("dag_runs", []))

    def trigger(self, dag_id: str, **form: Any) -> str:
        """Ask for a run now, its form filled in; returns its id. The scheduler starts it when its turn comes."""
        answer = self._ask("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": form}) or {}
        return str(answer["dag_run_id"])

    def questions(self) -> list[dict[str, Any]]:
        """What people are asked and have not answered: subject, body, options, task_instance …"""
        answer = self._ask("GET", "/dags/~/dagRuns/~/hitlDetails?response_received=false&state=awaiting_input&limit=20") or {}
        return list(answer.get("hitl_details", []))

    def respond(self, question: Mapping[str, Any], option: str, **form: Any) -> None:
        """Answer a question as the user who is logged in; raises ConfigurationFault (409) when somebody has answered before."""
        task = question["task_instance"]
        place = f"/dags/{task['dag_id']}/dagRuns/{quote(task['dag_run_id'], safe='')}/taskInstances/{task['task_id']}/{task['map_index']}"
        self._ask("PATCH", f"{place}/hitlDetails", {"chosen_options": [option], "params_input": form})

    def _ask(self, method: str, path: str, body: object = None, *, missing_is_none: bool = False) -> dict[str, Any] | None:
        for attempt in (1, 2):
            if not self._token:
                self._token = self._send("POST", "/auth/token", self._login)["access_token"]
            try:
                return self._send(method, f"/api/v2{path}", body)
            except urllib.error.HTTPError as fault:
                if fault.code == 404 and missing_is_none:
                    return None
                if fault.code != 401 or attempt == 2:
                    raise ConfigurationFault(f"Airflow answered {fault.code} to {method} {path}.") from None
                self._token = ""  # it has expired
            except OSError as fault:
                if attempt == 2:
                    raise ConfigurationFault(f"Airflow's API at {self.base} does not answer ({fault}).") from None
                time.sleep(2)
        return None

    def _send(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._token}"} if self._token else {})
        request = urllib.request.Request(
            self.base + path, method=method, headers=headers, data=json.dumps(body).encode() if body is not None else None
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
