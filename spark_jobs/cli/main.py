"""The `assay` command. Each command's libraries are imported when it runs, so that `assay --help` is quick."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from spark_jobs.cli import (
    alerts,
    audit,
    backfill,
    books,
    consumers,
    doctor,
    files,
    held,
    late,
    maintain,
    progress,
    quarantine,
    query,
    report,
    status,
    stream,
    where,
)
from spark_jobs.cli.terminal import complain
from spark_jobs.spec.errors import AssayError

EXIT_CODES = (
    "Exit codes: 0 done · 1 fault · 2 wrong name or setting · 3 lease · 4 checkpoint · 5 books do not balance · 6 gate stopped · "
    "8 crash loop."
)


class Commands(TyperGroup):
    """Shows a foreseen fault as its one sentence on standard error, and ends with its exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except AssayError as fault:
            complain(str(fault))
            raise typer.Exit(fault.exit_code) from None
        except BrokenPipeError:  # `assay files | head`: the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except Exception as fault:
            if not _is_of_storage(fault):
                raise  # not foreseen: the whole trace is wanted
            complain(_storage_sentence(fault))
            raise typer.Exit(1) from None


def _is_of_storage(fault: Exception) -> bool:
    """True for what the file systems and delta-rs raise: no such place, no permission, a damaged log."""
    return isinstance(fault, OSError) or type(fault).__module__.split(".")[0] in ("deltalake", "_internal")


def _storage_sentence(fault: Exception) -> str:
    from spark_jobs.jobs.storage_faults import storage_fault
    from spark_jobs.spec.settings import load_settings

    if foreseen := storage_fault(fault, load_settings().lake_root):
        return str(foreseen)
    text = (str(fault).strip().splitlines() or [type(fault).__name__])[0].rstrip(".")
    return f"The lake cannot be read or written: {text}. Nothing was changed; see ASSAY_LAKE and its permissions."


app = typer.Typer(
    cls=Commands,
    name="assay",
    help="What the lake holds, where each record went, and whether the numbers add up. Reads without a JVM.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("status")(status.status)
app.command("progress")(progress.progress)
app.add_typer(files.app, name="files")
app.command("books")(books.books)
app.add_typer(held.app, name="held")
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(consumers.app, name="consumers")
app.command("maintain")(maintain.maintain)
app.command("where")(where.where)
app.command("report")(report.report)
app.command("query")(query.query)
app.add_typer(backfill.app, name="backfill")
app.add_typer(late.app, name="late")
app.add_typer(stream.app, name="stream")
app.command("audit")(audit.audit)
app.add_typer(alerts.app, name="alerts")
app.command("doctor")(doctor.doctor)

if __name__ == "__main__":
    app()
