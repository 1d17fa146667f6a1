"""`assay doctor`: would each start go on from where it is, is the installation whole? `--rebuild`: a new checkpoint from the tables."""

from __future__ import annotations

import uuid
from dataclasses import asdict
from typing import Annotated, Any

import typer

from spark_jobs.cli.options import AsJson, PipelineName, pipelines
from spark_jobs.cli.terminal import complain, print_json, print_table, say
from spark_jobs.spec.errors import CheckpointDamaged, ConfigurationFault
from spark_jobs.spec.settings import Settings, load_settings

SHOWN = {"query": "query", "verdict": "verdict", "reason": "because"}
PARTS = {"part": "part", "state": "state", "sentence": "found", "mend": "to mend it"}
COLOURS = {"safe": "green", "safe with option": "yellow", "needs rebuild": "bold red", "ok": "green", "note": "yellow", "wrong": "bold red"}


def doctor(
    pipeline: PipelineName = "",
    rebuild: Annotated[str, typer.Option("--rebuild", metavar="QUERY", help="Make a new checkpoint, e.g. silver.cloudtrail_events.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a rebuild.")] = False,
    checkpoints_only: Annotated[bool, typer.Option("--checkpoints-only", help="Leave the installation out.")] = False,
    install_only: Annotated[bool, typer.Option("--install-only", help="Leave the checkpoints out.")] = False,
    as_json: AsJson = False,
) -> None:
    """What a restart would do with each checkpoint, and whether the installation is whole; changes nothing without --rebuild."""
    settings = load_settings()
    if rebuild:
        _rebuild(settings, pipeline, rebuild, yes, as_json)
        return
    parts = [] if checkpoints_only else _examine(settings)
    verdicts = [] if install_only else _diagnose(settings, pipeline)
    if as_json:
        print_json({"lake": settings.lake_root, "checkpoints": verdicts, "installation": parts})
    else:
        if parts:
            _show_parts(parts)
        if verdicts:
            _show(settings, verdicts)
    if any(row["verdict"] == "needs rebuild" for row in verdicts):
        raise typer.Exit(CheckpointDamaged.exit_code)
    if any(row["state"] == "wrong" for row in parts):
        raise typer.Exit(ConfigurationFault.exit_code)


def _examine(settings: Settings) -> list[dict[str, Any]]:
    from spark_jobs.cli.installation import examine

    return [asdict(part) for part in examine(settings)]


def _show_parts(parts: list[dict[str, Any]]) -> None:
    print_table(parts, PARTS, title="Installation", styles=COLOURS)
    wrong = [row["part"] for row in parts if row["state"] == "wrong"]
    say(f"To be mended: {', '.join(wrong)}." if wrong else "The installation is whole.", "bold red" if wrong else "green")


def _diagnose(settings: Settings, pipeline: str) -> list[dict[str, Any]]:
    from spark_jobs.jobs.doctor import diagnose
    from spark_jobs.jobs.run import Run

    return [one.as_dict() for declared in pipelines(pipeline) for one in diagnose(Run(settings, declared, _name()))]


def _show(settings: Settings, verdicts: list[dict[str, Any]]) -> None:
    print_table(verdicts, SHOWN, title=f"Checkpoints in {settings.lake_root}", styles=COLOURS)
    for row in verdicts:
        for finding in row["findings"]:
            if finding["sentence"] != row["reason"]:
                say(f"{row['query']}: {finding['sentence']}")
    if any(row["verdict"] == "needs rebuild" for row in verdicts):
        say(
            "A run of what needs a rebuild is refused before it writes anything. The runbook's page checkpoint.md says what to do.",
            "bold red",
        )


def _rebuild(settings: Settings, pipeline: str, query: str, yes: bool, as_json: bool) -> None:
    from spark_jobs.io.lease import Leases
    from spark_jobs.jobs.rebuild import queries, rebuild, tables_of
    from spark_jobs.jobs.run import Run
    from spark_jobs.spec.tables import TableId

    table = TableId.parse(query)
    runs = [Run(settings, declared, _name()) for declared in pipelines(pipeline)]
    run = next((one for one in runs if table in queries(one)), runs[0])
    tables = tables_of(run, table)
    if not yes:
        say(f"{table} gets a new checkpoint, positioned from the tables; the old one stays beside it. No row is lost or doubled.")
        typer.confirm("Go on?", abort=True)
    with Leases(settings, tables, run.run_id, say=complain) as leases:
        done = rebuild(run, leases, table)
    if as_json:
        print_json({"query": str(table), "checkpoint": done.location, "said": done.said})
        return
    for sentence in done.said or [f"{table} is what silver has: there is nothing to rebuild."]:
        say(sentence)
    if done.location:
        say(f"The new checkpoint is {done.location}. The next run goes on with it.")


def _name() -> str:
    return f"doctor-{uuid.uuid4().hex[:8]}"
