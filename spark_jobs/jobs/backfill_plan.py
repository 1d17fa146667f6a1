"""Plan a backfill: what it would read, what would change, and how long it would take, for a person to approve. Starts no JVM."""

from __future__ import annotations

import argparse
import json
from typing import Any

from spark_jobs.io.backfill_store import BackfillStore
from spark_jobs.io.java_options import archive_options
from spark_jobs.io.throughput import Throughput, throughput
from spark_jobs.jobs.backfill_contents import Contents, changing_days, contents, rows_by_day, source_folder
from spark_jobs.jobs.backfill_page import plan_page, plan_sentence
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.spec.backfill import BackfillRequest, backfill_name
from spark_jobs.spec.errors import ConfigurationFault

DAY_S = 86_400


def plan(run: Run, request: BackfillRequest, who: str = "") -> dict[str, Any]:
    """The stored plan as a row of `_ops.backfills`; a second try of the same run finds the plan of the first.

    Raises ConfigurationFault when the range holds nothing, or when the run has planned something else.
    """
    store = BackfillStore(run.settings, run.clock)
    name = backfill_name(run.pipeline.name, run.run_id)
    if (known := store.find(name)) is not None:
        if (asked := BackfillRequest.from_plan(json.loads(known["plan"])["request"])) != request:
            raise ConfigurationFault(f"Run {run.run_id} has planned {name} already: {asked}. Start a new run for another plan.")
        return known
    measured = throughput(run.settings, run.pipeline.name, request.what)
    found = contents(run, request, measured.records_per_byte)
    for folder in found.refused:
        run.say(f"{folder} may not be listed: permission denied. What lies there is not part of the plan.")
    details = _details(run, request, found, measured)
    wall_s, cpu_s = measured.predict([piece.bytes for piece in found.pieces])
    row = {
        "backfill_id": name, "pipeline": run.pipeline.name, "what": request.what, "state": "planned", "from_date": request.first,
        "to_date": request.last, "accounts": ",".join(request.accounts), "regions": ",".join(request.regions), "source": request.source,
        "is_newest_first": request.is_newest_first, "chunks": len(found.pieces), "files": sum(found.files.values()),
        "bytes": sum(found.bytes.values()), "records": details["records"], "overlap_files": sum(found.known.values()),
        "predicted_s": wall_s, "predicted_cpu_s": cpu_s, "plan": json.dumps(details), "who": who, "run_id": run.run_id,
    }  # fmt: skip
    chunks = [
        {
            "backfill_id": name, "pipeline": run.pipeline.name, "chunk": number, "state": "planned", "first_date": piece.first,
            "last_date": piece.last, "files": piece.files, "bytes": piece.bytes, "content": json.dumps(piece.content),
            "run_id": run.run_id,
        }
        for number, piece in enumerate(found.pieces)
    ]  # fmt: skip
    store.save(row, chunks)
    return store.get(name)


def _details(run: Run, request: BackfillRequest, found: Contents, measured: Throughput) -> dict[str, Any]:
    silver = rows_by_day(run.settings, run.pipeline.silver_table, run.pipeline.silver.date)
    days = changing_days(found, request)
    estimated = round(sum(found.bytes.values()) * measured.records_per_byte)
    return {
        "request": request.as_plan(),
        "planned_at": run.clock().isoformat(),
        "root": source_folder(run.settings, request).root if request.what == "load" else "",
        "days": [
            {
                "date": day.isoformat(), "files": found.files[day], "bytes": found.bytes[day], "known_files": found.known[day],
                "records": round(found.bytes[day] * measured.records_per_byte), "silver_rows": silver[day],
            }
            for day in sorted({*found.dates, *days})
        ],
        # At most: a window is computed again when an event of it is new, and not before that is known.
        "windows": {
            str(run.pipeline.gold_table(spec)): len(days) * DAY_S // spec.window.slide_s for spec in run.pipeline.gold
        },
        "ignored": found.ignored,
        "refused": list(found.refused),
        "records": estimated if found.records is None else found.records,
        "records_basis": "counted" if found.records is not None else "measured" if measured.is_density_measured else "shipped",
        "basis": measured.basis,
        "chunks": [
            {"chunk": number, "first": piece.first.isoformat(), "last": piece.last.isoformat(), "files": piece.files, "bytes": piece.bytes}
            for number, piece in enumerate(found.pieces)
        ],
    }  # fmt: skip


def _work(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """Say what a backfill would do, and store it as a plan."""
    request = BackfillRequest.parse(
        options.what, options.first, options.last, accounts=options.accounts, regions=options.regions, source=options.source,
        chunk_files=options.chunk_files, is_newest_first=options.newest_first,
    )  # fmt: skip
    row = plan(run, request, options.who)
    details = json.loads(row["plan"])
    small = all(chunk["bytes"] <= run.settings.small_mb * 1_000_000 for chunk in details["chunks"])
    run.say(plan_sentence(row))
    return {
        "backfill_id": row["backfill_id"], "chunks": row["chunks"], "sentence": plan_sentence(row), "markdown": plan_page(row),
        "plan": details, "java_options": archive_options(run.settings, small=small),
    }  # fmt: skip


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--what", required=True, help="load (historical files), replay (bronze through today's silver), recompute (gold)")
    parser.add_argument("--from", dest="first", required=True, help="first date, yyyy-mm-dd")
    parser.add_argument("--to", dest="last", required=True, help="last date, included")
    parser.add_argument("--accounts", default="", help="only these, separated by commas; default all")
    parser.add_argument("--regions", default="", help="only these, separated by commas; default all")
    parser.add_argument("--source", default="", help="where the history lies, if not below the landing folder")
    parser.add_argument("--chunk-files", type=int, default=0, help="files per chunk at most; 0 is the default")
    parser.add_argument("--newest-first", action="store_true", help="the newest dates first")
    parser.add_argument("--who", default="", help="who asks for it")


if __name__ == "__main__":
    leave(run_job("backfill_plan", _work, add_plan_options))
