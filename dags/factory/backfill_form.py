"""The form by which a backfill is started: its fields, the command line they make, and the page that explains them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param

from spark_jobs.spec.pipeline import Pipeline

ACCOUNT = r"^\d{12}$"
REGION = r"^[a-z]{2}(-[a-z]+)+-\d{1,2}$"
# A text that cannot be taken for an option of the command line.
SOURCE = r"^([A-Za-z0-9/.][^\x00-\x1f]*)?$"


def backfill_params() -> dict[str, Param]:
    """The fields of the form, in the order in which a person fills them in. What does nothing is the default: a dry run."""
    return {
        "what": Param(
            "load", type="string", enum=["load", "replay", "recompute"], title="What to do",
            description="load: read historical files. replay: bronze again through today's silver logic. recompute: gold from silver.",
            values_display={"load": "load historical files", "replay": "replay bronze through silver", "recompute": "recompute gold"},
        ),
        "from": Param(type="string", format="date", title="From", description="The first date, included (UTC)."),
        "to": Param(type="string", format="date", title="To", description="The last date, included (UTC)."),
        "accounts": Param(
            [], type=["array", "null"], items={"type": "string", "pattern": ACCOUNT}, title="Accounts",
            description="One per line, 12 digits; empty for all. Not for recompute.",
        ),
        "regions": Param(
            [], type=["array", "null"], items={"type": "string", "pattern": REGION}, title="Regions",
            description="One per line, as eu-west-1; empty for all. Not for recompute.",
        ),
        "source": Param(
            "", type=["string", "null"], pattern=SOURCE, title="Source",
            description="Folder or URL of the history if it is not below the landing folder. Only for load.",
        ),
        "chunk_files": Param(
            2048, type="integer", minimum=1, maximum=100_000, title="Files per chunk",
            description="A chunk is what is done at one go, and what a kill costs. Live data goes first between two chunks.",
        ),
        "newest_first": Param(False, type="boolean", title="Newest first", description="Begin with the newest dates."),
        "dry_run": Param(True, type="boolean", title="Dry run", description="Only plan: read, say what would be done, change nothing."),
        "approve": Param(
            True, type="boolean", title="Wait for approval", description="Show the plan and wait for a person before anything is changed."
        ),
    }  # fmt: skip


def plan_options(params: Mapping[str, Any]) -> list[str]:
    """The form as options of `backfill_plan`."""
    options = ["--what", params["what"], f"--from={params['from']}", f"--to={params['to']}", "--chunk-files", str(params["chunk_files"])]
    for name in ("accounts", "regions"):
        if params[name]:
            options.append(f"--{name}={','.join(params[name])}")
    if params["source"]:
        options.append(f"--source={params['source']}")
    return options + (["--newest-first"] if params["newest_first"] else [])


def backfill_page(pipeline: Pipeline) -> str:
    """Markdown: which of the two backfills to use when, what each field means, what each task does."""
    fields = "\n".join(f"| {param.schema['title']} | {param.schema.get('description') or param.description} |" for param in _described())
    return f"""### {pipeline.title}: history

**Which backfill?** Airflow's own *Backfill* of `{pipeline.name}_hourly` makes a run for each of its intervals, and such a run lists only
the date prefixes of its interval: good for a gap of some hours or days, in the landing folder, on a machine with time to spare (each run
costs a driver's start). This DAG is for everything else: months of history, another folder, some accounts only, a mended parser, windows to
make again. It says beforehand what it would do, does it in chunks, and proves gold afterwards.

| to … | choose |
|---|---|
| bring in files that landed before Assay did, or lie elsewhere | **load** |
| use a mended parser on records that are in bronze already | **replay** |
| make gold's windows of some days again from silver | **recompute** |

Start it with **Trigger**. A dry run is the default: it ends after `plan`, and the plan is on the run's page under **Quality report**. With
*Dry run* off it waits for a person (**Required Actions** shows the plan) and then does it chunk by chunk. Live runs go first. A chunk that
was killed can be cleared and run again; nothing is counted twice. Does a gate stop a chunk, decide in `{pipeline.name}_held`, then clear
the chunk. `assay backfill` does the same on the command line.

| field | |
|---|---|
{fields}

`plan` → `check_dry_run` → `approve` → `list_chunks` → `run_chunk` (one for each chunk) → `verify` (gold against a batch over silver, before
and after per day, predicted against actual) → `report`. Owner: **{pipeline.owner}**.
"""


def _described() -> list[Param]:
    return list(backfill_params().values())
