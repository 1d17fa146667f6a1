"""`make run`: the hourly DAG with its real operators, on the shipped sample (two deliveries, two runs) or on the user's own files."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from spark_jobs.cli.airflow_home import PROJECT, airflow_environment, airflow_home, only_one, prepare_airflow, storage_sentence
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
    except OSError as fault:
        complain(storage_sentence(fault))
        return 1
    except KeyboardInterrupt:
        complain("Stopped. What was published is whole; the next run goes on from there.")
        return 130


def _run(settings: Settings, pipeline: Pipeline, *, own_files: bool) -> int:
    """Each run there is a reason for, then the figures; raises RunFailed or BooksUnbalanced after the figures are shown."""
    began = time.time()
    env = airflow_environment(settings)
    run_ids: list[str] = []
    failure = ""
    for reason in _reasons(settings, pipeline, env, own_files=own_files):
        result, failure = _one_run(settings, pipeline, env, reason)
        run_ids += [result.run_id] if result.run_id else []
        if failure:
            break
    unbalanced = _show_figures(settings, pipeline, run_ids) if run_ids else []
    if failure:
        raise RunFailed(failure)
    if unbalanced:
        raise BooksUnbalanced(f"The books of {', '.join(unbalanced)} do not balance; `assay books` shows each batch.")
    if run_ids:
        say(f"Done in {time.time() - began:.0f} s. Next: `make status`, `make up`, or a question of your own:")
        say(f'  .assay/venv/bin/assay query "select * from {pipeline.silver_table} limit 5"')
    return 0


def _reasons(settings: Settings, pipeline: Pipeline, env: dict[str, str], *, own_files: bool) -> Iterator[str]:
    """A sentence for each run to make: the sample's deliveries that had not landed yet, else whatever discover finds to do.

    Discover is asked first, since Airflow takes seconds to start, and a wrong folder or nothing new is known at once.
    """
    if own_files:
        _check_readable(settings.landing_root)
    else:
        parts = zip(("First delivery: {} files have landed.", "Second delivery: {} more files have landed."), deliveries(), strict=True)
        landed = 0
        for sentence, files in parts:
            if count := deliver(settings, files):
                landed += count
                yield sentence.format(count)
        if landed:
            return
    if has_work(env, pipeline):
        yield f"Reading {settings.landing_root}."


def _check_readable(place: str) -> None:
    if "://" in place or os.access(place, os.R_OK | os.X_OK):
        return
    state = "cannot be read; change its permissions" if Path(place).exists() else "does not exist; give the folder that holds the log files"
    raise ConfigurationFault(f"The landing folder {place} {state}, as in: make run FILES=/path/to/AWSLogs")


def _one_run(settings: Settings, pipeline: Pipeline, env: dict[str, str], reason: str) -> tuple[DagRunResult, str]:
    """One run of the DAG, shown as it goes, and the newest windows after it; with a sentence if it failed."""
    from spark_jobs.cli.summary import counts_by_window

    say("")
    say(reason, "bold")
    prepare_airflow(env)
    log = airflow_home(settings) / "logs" / "runs" / f"{time.strftime('%Y%m%dT%H%M%S')}.log"
    result = run_dag(f"{pipeline.name}_hourly", env, log)
    if result.exit_code:
        return result, f"The run failed: {(result.failure or _last_line(log)).rstrip('.')}. The whole log is in {log}."
    windows = ", ".join(f"{start:%Y-%m-%d %H:%M} → {count:,}" for start, count in counts_by_window(settings, pipeline))
    if windows:
        say(f"  Events by hour now: {windows}")
    return result, ""


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


def _show_figures(settings: Settings, pipeline: Pipeline, run_ids: list[str]) -> list[str]:
    """Books, gates, the busiest rows and where the report is; returns the tables whose books do not balance."""
    from spark_jobs.cli.summary import BOOK_COLUMNS, books_by_table, busiest_rows, gates_of

    books = books_by_table(settings, pipeline, run_ids)
    say("")
    if books:
        print_table(books, BOOK_COLUMNS, title="The books", styles={"yes": "green", "no": "bold red"})
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
    return [row["table"] for row in books if not row["is_balanced"]]


def _last_line(log: Path) -> str:
    return next((line for line in reversed(log.read_text(errors="replace").splitlines()) if line.strip()), "it said nothing.")


def _stop(*_signal: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
