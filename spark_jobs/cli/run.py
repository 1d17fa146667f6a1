"""`make run`: the hourly DAG with its real operators, on the shipped sample (two deliveries, two runs) or on the user's own files."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from spark_jobs.cli.airflow_home import PROJECT, airflow_environment, airflow_home, only_one, prepare_airflow
from spark_jobs.cli.dag_run import DagRunResult, run_dag
from spark_jobs.cli.processes import adopt_orphans, on_end_signals
from spark_jobs.cli.sample import deliver, deliveries
from spark_jobs.cli.terminal import complain, print_table, say
from spark_jobs.spec.errors import AssayError, BooksUnbalanced, ConfigurationFault
from spark_jobs.spec.pipeline import Pipeline, load_pipeline
from spark_jobs.spec.settings import Settings, load_settings


class RunFailed(AssayError):
    """A run of the DAG failed; the text says in which task and why."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make run", description=__doc__)
    parser.add_argument("--files", default="", help="folder or URL prefix of your own files; without it the shipped sample is used")
    parser.add_argument("--pipeline", default="cloudtrail")
    options = parser.parse_args(arguments)
    adopt_orphans()
    on_end_signals(_stop)
    try:
        settings = load_settings(**({"landing": options.files} if options.files else {}))
        with only_one(settings, "make run"):
            return _run(settings, load_pipeline(options.pipeline), own_files=bool(options.files or os.environ.get("ASSAY_LANDING")))
    except AssayError as fault:
        complain(str(fault))
        return fault.exit_code
    except KeyboardInterrupt:
        complain("Stopped. What was published is whole; the next run goes on from there.")
        return 130


def _run(settings: Settings, pipeline: Pipeline, *, own_files: bool) -> int:
    began = time.time()
    env = airflow_environment(settings)
    results: list[DagRunResult] = []
    for announce in [_announce_own] if own_files else [_deliver_first, _deliver_rest]:
        sentence = announce(settings)
        if not sentence:
            continue
        results.append(_one_run(settings, pipeline, env, sentence))
    if not results:  # all of the sample has been delivered before
        if not has_work(env, pipeline):
            return 0
        results.append(_one_run(settings, pipeline, env, "Going on where the last run stopped."))
    return _conclude(settings, pipeline, [result.run_id for result in results], time.time() - began)


def _announce_own(settings: Settings) -> str:
    """Own files: look first, since Airflow takes seconds to start and a wrong folder or nothing new is known at once."""
    place = settings.landing_root
    if "://" not in place and not os.access(place, os.R_OK | os.X_OK):
        state = (
            "cannot be read; change its permissions" if Path(place).exists() else "does not exist; give the folder that holds the log files"
        )
        raise ConfigurationFault(f"The landing folder {place} {state}, as in: make run FILES=/path/to/AWSLogs")
    return f"Files from {place}." if has_work(airflow_environment(settings), load_pipeline("cloudtrail")) else ""


def _deliver_first(settings: Settings) -> str:
    count = deliver(settings, deliveries()[0])
    return f"First delivery: {count} files have landed." if count else ""


def _deliver_rest(settings: Settings) -> str:
    count = deliver(settings, deliveries()[1])
    return f"Second delivery: {count} more files have landed." if count else ""


def _one_run(settings: Settings, pipeline: Pipeline, env: dict[str, str], sentence: str) -> DagRunResult:
    """One run of the DAG, and the newest windows after it; raises RunFailed with the failed task's sentence."""
    from spark_jobs.cli.summary import counts_by_window

    say("")
    say(sentence, "bold")
    prepare_airflow(env)
    log = airflow_home(settings) / "logs" / "runs" / f"{time.strftime('%Y%m%dT%H%M%S')}.log"
    result = run_dag(f"{pipeline.name}_hourly", env, log)
    if result.exit_code:
        raise RunFailed(f"The run failed: {result.failure or _last_line(log)} The whole log is in {log}.")
    windows = ", ".join(f"{start:%Y-%m-%d %H:%M} → {count:,}" for start, count in counts_by_window(settings, pipeline))
    if windows:
        say(f"  Events by hour now: {windows}")
    return result


def has_work(env: dict[str, str], pipeline: Pipeline) -> bool:
    """Ask discover, which starts no JVM; prints its sentence. Raises ConfigurationFault with discover's own sentence."""
    command = [
        sys.executable,
        "-m",
        "spark_jobs.jobs.discover",
        "--pipeline",
        pipeline.name,
        "--run-id",
        f"look__{time.strftime('%Y%m%dT%H%M%S')}",
    ]
    asked = subprocess.run(command, env=env, cwd=PROJECT, capture_output=True, text=True)
    try:
        said = json.loads(asked.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise RunFailed(f"The landing folder could not be listed: {(asked.stderr.splitlines() or ['no reason was given'])[-1]}") from None
    if asked.returncode:
        raise ConfigurationFault(said["sentence"])
    say(said["sentence"])
    return bool(said["has_work"])


def _conclude(settings: Settings, pipeline: Pipeline, run_ids: list[str], seconds: float) -> int:
    """The figures, where to look, what to type next; raises BooksUnbalanced."""
    from spark_jobs.cli.summary import BOOK_COLUMNS, books_by_table, busiest_rows, gates_of

    books = books_by_table(settings, pipeline, run_ids)
    say("")
    print_table(books, BOOK_COLUMNS, title="The books of this run", styles={"yes": "green", "no": "bold red"})
    gates = gates_of(settings, run_ids)
    passed = [gate for gate in gates if gate["outcome"] == "pass"]
    say(f"Gates: {len(passed)} of {len(gates)} suites passed, {sum(gate['expectations'] for gate in gates)} expectations evaluated.")
    for gate in gates:
        if gate["outcome"] != "pass":
            say(f"  {gate['table']} {gate['batch_id']}: {gate['outcome']}. {gate['sentence']}", "yellow")
    rows, table, counts = busiest_rows(settings, pipeline)
    if rows:
        say("")
        print_table(rows, {name: name for name in rows[0]}, title=f"The busiest rows of {table}, by {counts}")
    report = settings.reports_root / "index.html"
    if report.exists():
        say(f"Report: {report}")
    say(f"Done in {seconds:.0f} s. Next: `make status`, `make up`, or a question of your own:")
    say(f'  .assay/venv/bin/assay query "select * from {pipeline.silver_table} limit 5"')
    unbalanced = [row["table"] for row in books if not row["is_balanced"]]
    if unbalanced:
        raise BooksUnbalanced(f"The books of {', '.join(unbalanced)} do not balance; `assay books` shows each batch.")
    return 0


def _last_line(log: Path) -> str:
    return next((line for line in reversed(log.read_text(errors="replace").splitlines()) if line.strip()), "it said nothing.")


def _stop(*_signal: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
