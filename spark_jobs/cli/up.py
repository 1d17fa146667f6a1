"""`make up`: the real Airflow (scheduler, DAG processor, triggerer, API server) on 127.0.0.1, and nothing left of it afterwards."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen
from typing import Any

from spark_jobs.cli.airflow_api import AirflowApi
from spark_jobs.cli.airflow_home import PROJECT, airflow_environment, airflow_home, only_one, prepare_airflow, storage_sentence
from spark_jobs.cli.dag_run import events_of
from spark_jobs.cli.processes import adopt_orphans, end_family, on_end_signals, start
from spark_jobs.cli.run import has_work
from spark_jobs.cli.sample import deliver, deliveries
from spark_jobs.cli.terminal import complain, say
from spark_jobs.spec.errors import AssayError, ConfigurationFault
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.settings import Settings, load_settings

USER = "admin"
ENDED = ("success", "failed")
START_S = 180  # the API server needs 15 s on a quiet machine
SERVERS = {
    "api-server": ["api-server"],
    # Without their log servers, which listen on all interfaces: the API server reads the log files themselves.
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
}


class AirflowDown(AssayError):
    """A part of Airflow did not start or has ended by itself."""


def main() -> int:
    adopt_orphans()
    on_end_signals(_stop)
    try:
        settings, port = load_settings(), _free_port(os.environ.get("ASSAY_PORT", "8080"))
        with ExitStack() as stack:
            stack.enter_context(only_one(settings, "make up"))
            stack.callback(_end)
            return _serve(settings, port)
    except AssayError as fault:
        complain(str(fault))
        return fault.exit_code
    except OSError as fault:
        complain(storage_sentence(fault))
        return 1
    except KeyboardInterrupt:
        return 0


def _serve(settings: Settings, port: int) -> int:
    """Start everything, tell where it is, follow the runs until a signal comes; raises AirflowDown when a part ends."""
    dag_id = "cloudtrail_hourly"
    env = airflow_environment(settings, port=port)
    home = airflow_home(settings)
    progress = home / "logs" / "tasks.jsonl"
    progress.parent.mkdir(parents=True, exist_ok=True)
    progress.unlink(missing_ok=True)
    env["ASSAY_TASK_EVENTS"] = str(progress)
    password, is_new = _password(home)
    seeded = 0
    if not os.environ.get("ASSAY_LANDING") and not any(Path(settings.landing_root).glob("*")):
        seeded = deliver(settings, [file for part in deliveries() for file in part])
    say(
        f"The sample's {seeded} files have landed in {settings.landing_root}."
        if seeded
        else f"Files are read from {settings.landing_root}."
    )
    is_waiting = bool(seeded) or has_work(env, load_pipeline("cloudtrail"))
    say("Starting Airflow …")
    prepare_airflow(env, ends_stale_runs=True)
    servers = {name: _start_server(name, env, home) for name in ("api-server", "dag-processor")}
    api = AirflowApi(port, USER, password)
    _wait(servers, home, api.is_up, "the API server did not answer")
    # A task reports to the API server, so a scheduler that is quicker would see its first task fail.
    servers |= {name: _start_server(name, env, home) for name in ("scheduler", "triggerer")}
    _wait(servers, home, lambda: api.dag(dag_id) is not None, "the DAG did not appear")
    say("")
    say(f"Airflow: {api.base}/dags/{dag_id}    user: {USER}    password: {password if is_new else f'in {home}/passwords.json'}", "bold")
    say("Ctrl-C stops all of it.")
    say("")
    _follow(servers, home, api, dag_id, progress, is_waiting=is_waiting)
    return 0


def _follow(servers: dict[str, Popen[bytes]], home: Path, api: AirflowApi, dag_id: str, progress: Path, *, is_waiting: bool) -> None:
    """Print what the scheduler does, of all DAGs. Files that wait get a run of `dag_id` at once, unless the schedule has just made one."""
    events = events_of(progress)
    told: set[tuple[str, ...]] = {_key(run) for run in api.runs() if run["state"] in ENDED}
    started = time.monotonic()
    asked = time.monotonic()
    while True:
        _check(servers, home)
        for event in next(events):
            if event["state"] != "running" and not _is_a_look(event):
                mark = {"success": "✓", "failed": "✗", "retry": "↻"}.get(event["state"], "-")
                say(f"  {mark} {event['dag_id'] + ' ' + event['task_id']:<36} {event['error'] or ''}".rstrip())
        if time.monotonic() - asked > 3:
            asked = time.monotonic()
            runs = api.runs()
            for run in runs:
                if run["state"] in ENDED and _key(run) not in told:
                    told.add(_key(run))
                    if _is_a_look(run):
                        continue
                    colour = "green" if run["state"] == "success" else "bold red"
                    say(f"Run {run['dag_run_id']} of {run['dag_id']} ended: {run['state']}. {_page(api, run)}", colour)
                    is_waiting = is_waiting and run["dag_id"] != dag_id
            for question in api.questions():
                run = question["task_instance"]
                if (*_key(run), "asked") not in told:
                    told.add((*_key(run), "asked"))
                    say(f"A person is asked: {question['subject']} {_page(api, run)}/required_actions", "yellow")
            if is_waiting and time.monotonic() - started > 10:
                is_waiting = False
                mine = [run for run in runs if run["dag_id"] == dag_id]
                if not any(run["state"] in ("queued", "running") for run in mine) and not (api.dag(dag_id) or {}).get("is_paused"):
                    say(f"Run {api.trigger(dag_id)} asked for, since files are waiting.")
        time.sleep(0.5)


def _is_a_look(of: Mapping[str, Any]) -> bool:
    """The watch looks every five minutes; what it finds it tells in its own way, so that only its failures are shown here."""
    return bool(of["dag_id"].endswith("_watch") and of["state"] == "success")


def _key(run: Mapping[str, Any]) -> tuple[str, ...]:
    return run["dag_id"], run["dag_run_id"]


def _page(api: AirflowApi, run: Mapping[str, Any]) -> str:
    return f"{api.base}/dags/{run['dag_id']}/runs/{_quoted(run['dag_run_id'])}"


def _start_server(name: str, env: Mapping[str, str], home: Path) -> Popen[bytes]:
    log = _server_log(home, name)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        return start([str(Path(sys.executable).parent / "airflow"), *SERVERS[name]], env=env, cwd=PROJECT, log=output)


def _server_log(home: Path, name: str) -> Path:
    return home / "logs" / f"{name}.log"


def _wait(servers: dict[str, Popen[bytes]], home: Path, is_done: Any, what: str) -> None:
    deadline = time.monotonic() + START_S
    while not is_done():
        _check(servers, home)
        if time.monotonic() > deadline:
            raise AirflowDown(f"Airflow was stopped: {what} within {START_S} s. Its logs are in {home}/logs.")
        time.sleep(0.5)


def _check(servers: dict[str, Popen[bytes]], home: Path) -> None:
    for name, server in servers.items():
        if (code := server.poll()) is not None:
            lines = [line for line in _server_log(home, name).read_text(errors="replace").splitlines() if line.strip()]
            said = lines[-1] if lines else "nothing"
            raise AirflowDown(
                f"Airflow was stopped: its {name} ended with exit code {code}, saying: {said} The log is {_server_log(home, name)}."
            )


def _password(home: Path) -> tuple[str, bool]:
    """The password of `admin`, and whether it was made just now. Made here, since Airflow would write its own into a log."""
    file = home / "passwords.json"
    if file.exists():
        known = json.loads(file.read_text() or "{}").get(USER)
        if known:
            return str(known), False
    password = secrets.token_urlsafe(12)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
        json.dump({USER: password}, opened)
    return password, True


def _free_port(text: str) -> int:
    """The port as a number when nothing listens there; raises ConfigurationFault before anything is started."""
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        raise ConfigurationFault(f"ASSAY_PORT={text} is not a port; give a number from 1 to 65535.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", int(text)))
        except PermissionError:
            raise ConfigurationFault(
                f"Port {text} may not be used by this user; choose one above 1023, as in: ASSAY_PORT=8081 make up"
            ) from None
        except OSError:
            raise ConfigurationFault(f"Port {text} is in use by another program; choose another, as in: ASSAY_PORT=8081 make up") from None
    return int(text)


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")


def _end() -> None:
    complain("Stopping Airflow …")
    on_end_signals(lambda *_signal: None)  # a second Ctrl-C must not leave half of it
    end_family()
    complain("Stopped.")


def _stop(*_signal: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
