"""The project's own Airflow: its environment variables, and its home folder made ready once."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TextIO

from spark_jobs.io.java_options import LAUNCHER
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.settings import Settings

PROJECT = Path(__file__).resolve().parents[2]
PREPARE = PROJECT / "infra" / "airflow" / "prepare.py"


def airflow_home(settings: Settings) -> Path:
    return settings.home.absolute() / "airflow"


def airflow_environment(settings: Settings, base: Mapping[str, str] = os.environ, *, port: int = 8080) -> dict[str, str]:
    """The environment in which every Airflow process, and through it every job, is started.

    Settings given by ASSAY_* stay as they are; paths become absolute, since Airflow runs tasks in other folders.
    """
    home = airflow_home(settings)
    venv = Path(sys.executable).parent
    java = settings.home.absolute() / "java"
    env = {name: value for name, value in base.items() if not name.startswith("AIRFLOW")}
    env |= {
        "ASSAY_HOME": str(settings.home.absolute()),
        "ASSAY_LAKE": settings.lake_root,
        "ASSAY_LANDING": settings.landing_root,
        "ASSAY_REPORTS": str(settings.reports_root),
        "ASSAY_PYTHON": sys.executable,
        "PATH": f"{java / 'bin'}{os.pathsep}{venv}{os.pathsep}{base.get('PATH', os.defpath)}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(_package_folder("pyspark")),
        "SPARK_LAUNCHER_OPTS": LAUNCHER,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "GX_ANALYTICS_ENABLED": "False",
        "PYTHONWARNINGS": "ignore",  # a user's screen is no place for other libraries' deprecations
        "AIRFLOW_HOME": str(home),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": settings.master, "extra": {"deploy-mode": "client"}}),
    }
    if (java / "bin" / "java").exists():
        env["JAVA_HOME"] = str(java)
    return env | {f"AIRFLOW__{name}": value for name, value in _configuration(settings, home, port).items()}


def _configuration(settings: Settings, home: Path, port: int) -> dict[str, str]:
    return {
        "CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "CORE__PLUGINS_FOLDER": str(PROJECT / "infra" / "airflow" / "plugins"),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "CORE__DAG_DISCOVERY_SAFE_MODE": "False",  # it would pass over a DAG file that does not say the word airflow
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": "4",
        "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "CORE__AUTH_MANAGER": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "API__HOST": "127.0.0.1",
        "API__PORT": str(port),
        "API__WORKERS": "1",
        "API__BASE_URL": f"http://127.0.0.1:{port}",
        "API__SECRET_KEY": _secret(home, "api"),
        "API__EXPOSE_CONFIG": "False",
        "API_AUTH__JWT_SECRET": _secret(home, "jwt"),
        "CORE__FERNET_KEY": "",
        "LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        "LOGGING__DAG_PROCESSOR_CHILD_PROCESS_LOG_DIRECTORY": str(home / "logs" / "dag_processor"),
        "USAGE_DATA_COLLECTION__ENABLED": "False",
        "SCHEDULER__ENABLE_HEALTH_CHECK": "False",
        # A task whose supervisor was killed is tried again within two minutes: this, a look each ten seconds, and a driver's start.
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "75",
        "DAG_PROCESSOR__REFRESH_INTERVAL": "60",
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
    }


def _secret(home: Path, name: str) -> str:
    """A random secret of this installation, made once and readable by its owner alone."""
    file = home / f"{name}.secret"
    try:
        home.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError), os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.write(secrets.token_urlsafe(32))
        return file.read_text()
    except OSError as fault:
        raise _unwritable(home, fault) from None


def _lock_file(home: Path) -> TextIO:
    try:
        home.mkdir(parents=True, exist_ok=True)
        return (home / "in_use").open("a+")
    except OSError as fault:
        raise _unwritable(home, fault) from None


def _unwritable(home: Path, fault: OSError) -> ConfigurationFault:
    return ConfigurationFault(f"The state folder {home} cannot be written ({fault.strerror}); set ASSAY_HOME to a folder that can.")


@contextmanager
def only_one(settings: Settings, command: str) -> Iterator[None]:
    """Hold this state folder's Airflow for one command; raises ConfigurationFault naming the other that holds it.

    Two would run the same tasks twice: a scheduler takes up any run it finds in the database.
    """
    with _lock_file(airflow_home(settings)) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            raise ConfigurationFault(
                f"`{lock.read().strip() or 'another command'}` is at work in {settings.home}; let it end or stop it, or set ASSAY_HOME to "
                "another folder. A running `make up` takes new files every hour, and whenever you trigger the DAG on its page."
            ) from None
        lock.truncate(0)
        lock.write(command)
        lock.flush()
        yield


def prepare_airflow(env: Mapping[str, str], *, ends_stale_runs: bool = False) -> None:
    """Create or migrate the metadata database and the pools; does nothing when this version of Airflow did it before.

    `ends_stale_runs` marks as failed what a killed process left as running: a scheduler would wait minutes for it.
    Raises ConfigurationFault with the last line Airflow said.
    """
    home = Path(env["AIRFLOW_HOME"])
    stamp, wanted = home / "prepared", version("apache-airflow")
    if stamp.exists() and stamp.read_text() == wanted and (home / "airflow.db").exists() and not ends_stale_runs:
        return
    options = ["--end-stale-runs"] if ends_stale_runs else []
    done = subprocess.run([sys.executable, str(PREPARE), *options], env=dict(env), cwd=PROJECT, capture_output=True, text=True)
    with suppress(OSError):
        (home / "prepare.log").write_text(done.stdout + done.stderr)
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        # SQLAlchemy ends with a hint where to read more; the reason is above it.
        reason = next((line for line in reversed(lines) if "Error" in line), lines[-1] if lines else f"exit code {done.returncode}")
        raise ConfigurationFault(
            f"Airflow's database in {home} could not be made ready: {reason}. The whole output is in {home}/prepare.log."
        )
    stamp.write_text(wanted)


def storage_sentence(fault: OSError) -> str:
    """What the machine's storage answered, as a sentence: a full disk, a lost permission, a quota."""
    where = f" ({fault.filename})" if fault.filename else ""
    return f"{fault.strerror or fault}{where}. What was published is whole; mend that and run again."


def _package_folder(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ConfigurationFault(f"The Python package {name} is not installed here; run `make setup`.")
    return Path(spec.origin).parent
