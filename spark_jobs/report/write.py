"""Writing a run's report and the index of all runs. Files appear whole: each is written beside its place and moved there."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from spark_jobs.report.facts import facts_of_run
from spark_jobs.report.place import report_folder
from spark_jobs.report.render import index_page, report_page, to_json
from spark_jobs.report.views import LakeViews
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings

MOST_RUNS = 500  # of the index: three weeks of hourly runs; older ones stay in their folders


@dataclass(frozen=True, slots=True)
class Written:
    """A report that was written: its page, and one sentence on the run."""

    page: Path
    sentence: str


def write_report(settings: Settings, pipeline: Pipeline, run_id: str, now: datetime, views: LakeViews | None = None) -> Written | None:
    """Write index.html, report.json and summary.json of the run, then the index. None, and nothing written, when the run did nothing.

    Raises ConfigurationFault when the reports folder cannot be written.
    """
    facts = facts_of_run(settings, views or LakeViews(settings), pipeline, run_id, now)
    if facts is None:
        return None
    folder = report_folder(settings, pipeline.name, run_id)
    text = to_json(facts)
    # The page is made from the JSON that lies beside it, so the two cannot differ.
    page = report_page(json.loads(text))
    summary = summary_of(json.loads(text), f"{pipeline.name}/{folder.name}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "report.json", text)
        _write(folder / "index.html", page)
        _write(folder / "summary.json", to_json(summary))
        write_index(settings.reports_root)
    except OSError as fault:
        raise ConfigurationFault(
            f"The report cannot be written to {folder} ({fault.strerror}). Set ASSAY_REPORTS to a folder that can be."
        ) from None
    return Written(folder / "index.html", f"{facts['outcome']['word']}: {facts['outcome']['sentence']} {summary['equation']}".strip())


def write_index(root: Path) -> None:
    """Write `<root>/index.html` from the summaries of the newest runs."""
    files = sorted(root.glob("*/*/summary.json"), key=lambda file: (file.stat().st_mtime_ns, str(file)), reverse=True)
    runs = [json.loads(file.read_text(encoding="utf-8")) for file in files[:MOST_RUNS]]
    runs.sort(key=lambda run: (run["ran_at"] or "", run["folder"]), reverse=True)
    _write(root / "index.html", index_page(runs, max(0, len(files) - MOST_RUNS)))


def remove_old_reports(settings: Settings, *, before: datetime) -> int:
    """Remove the reports that were written before that time, and leave them out of the index. Returns how many.

    A folder counts as a report when it holds a summary; anything else in the reports folder is left alone.
    """
    removed = 0
    for summary in settings.reports_root.glob("*/*/summary.json"):
        if summary.stat().st_mtime < before.timestamp():
            for name in ("index.html", "report.json", "summary.json"):  # the summary last, so that a killed one is found again
                (summary.parent / name).unlink(missing_ok=True)
            with suppress(OSError):  # somebody has put a file of their own there
                summary.parent.rmdir()
            removed += 1
    if removed:
        write_index(settings.reports_root)
    return removed


def summary_of(facts: dict[str, Any], folder: str) -> dict[str, Any]:
    """What the index says of a run."""
    return {
        "pipeline": facts["pipeline"], "run_id": facts["run_id"], "folder": folder, "ran_at": facts["ran_at"],
        "state": facts["outcome"]["state"], "word": facts["outcome"]["word"], "sentence": facts["outcome"]["sentence"],
        "equation": equation(facts["summary"]),
    }  # fmt: skip


def equation(summary: dict[str, Any]) -> str:
    """The summary as text: `Every record accounted for: 1,292 read = 1,290 published + 2 quarantined + …`."""
    if summary["read"] is None:
        return str(summary["lead"])
    terms = " + ".join(f"{term['number']:,} {term['word']}" for term in summary["terms"])
    return f"{summary['lead']}: {summary['read']:,} read {'=' if summary['is_balanced'] else '≠'} {terms}."


def _write(place: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
