"""`assay consumers`: who still needs which version of a table, and the registration of those that Assay cannot know by itself."""

from __future__ import annotations

import getpass
from typing import Annotated, Any

import typer

from spark_jobs.cli.options import AsJson
from spark_jobs.cli.terminal import print_json, print_table, say
from spark_jobs.spec.errors import ConfigurationFault, UnknownName
from spark_jobs.spec.settings import Settings, load_settings
from spark_jobs.spec.tables import CONSUMERS, TableId

app = typer.Typer(invoke_without_command=True, help="Who still needs which version of a table: list, register, release.")

SHOWN = {"table": "table", "who": "consumer", "version": "needs from version", "latest": "table is at", "needs": "what it needs"}
Name = Annotated[str, typer.Argument(metavar="NAME", help="A name of your choice for the consumer.")]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="Full name, e.g. silver.cloudtrail_events.")]


@app.callback()
def consumers(context: typer.Context) -> None:
    """Without a subcommand: list them."""
    if context.invoked_subcommand is None:
        list_consumers()


@app.command("list")
def list_consumers(as_json: AsJson = False) -> None:
    """Each consumer of each table, the slowest first: maintenance removes nothing that one of them needs."""
    rows = _needs(load_settings())
    if as_json:
        print_json(rows)
    elif rows:
        print_table(rows, SHOWN)
        say("Maintenance removes no file that one of these needs. `assay consumers release NAME` gives up a registered one.")
    else:
        say("No table was written yet, so nobody needs any.")


@app.command("register")
def register(
    name: Name,
    table: TableName,
    checkpoint: Annotated[str, typer.Option("--checkpoint", help="Checkpoint folder of a Spark stream that reads the table.")] = "",
    version: Annotated[int | None, typer.Option("--version", min=0, help="A version of the table that must stay readable.")] = None,
    note: Annotated[str, typer.Option("--note", help="Why; kept with the registration.")] = "",
    as_json: AsJson = False,
) -> None:
    """Keep what a consumer needs: a stream from where its checkpoint is, or one version of the table."""
    from spark_jobs.io.consumers import registered, registered_need
    from spark_jobs.io.lake import lake_table
    from spark_jobs.report.views import close_to, known_tables

    if bool(checkpoint) == (version is not None):
        raise ConfigurationFault("Give either --checkpoint FOLDER (a stream) or --version N (a version that must stay readable).")
    if table not in map(str, known_tables()):
        raise UnknownName(f"There is no table {table}: {close_to(table)}")
    settings = load_settings()
    found = lake_table(settings, TableId.parse(table))
    if found is None:
        raise UnknownName(f"{table} has not been written yet in {settings.lake_root}; a run writes it.")
    if any(row["name"] == name for row in registered(settings)):
        raise ConfigurationFault(f"A consumer '{name}' is registered already. Release it first: assay consumers release {name}")
    if version is not None:
        _check_version(settings, table, version, int(found.version()))
    row = {"name": name, "table": table, "checkpoint": checkpoint or None, "version": version, "note": note, "state": "registered"}
    need = registered_need(settings, row)
    _append(settings, row)
    kept = f"version {version} stays readable" if version is not None else f"everything from version {need.version} on stays readable"
    sentence = f"{name} is registered: of {table}, {kept}."
    if need.fault:
        sentence += f" For now {need.fault}."
    print_json(row | {"sentence": sentence}) if as_json else say(sentence)


@app.command("release")
def release(name: Name, note: Annotated[str, typer.Option("--note", help="Why; kept with it.")] = "", as_json: AsJson = False) -> None:
    """Give a registered consumer up: the next maintenance may remove what only it needed."""
    from spark_jobs.io.consumers import registered

    settings = load_settings()
    known = {str(row["name"]): row for row in registered(settings)}
    if name not in known:
        names = f"registered: {', '.join(known)}" if known else "none is registered"
        raise UnknownName(f"There is no registered consumer '{name}'; {names}.")
    row = {**known[name], "state": "released", "note": note}
    _append(settings, row)
    sentence = f"{name} is released: the next maintenance may remove what only it needed of {row['table']}."
    print_json(row | {"sentence": sentence}) if as_json else say(sentence)


def _needs(settings: Settings) -> list[dict[str, Any]]:
    from spark_jobs.cli.options import pipelines
    from spark_jobs.io.consumers import needs_of
    from spark_jobs.io.delta_log import latest_version
    from spark_jobs.report.views import known_tables

    declared = pipelines("")
    rows = []
    for table in known_tables():
        for need in needs_of(settings, declared, table):
            whole = [f"the table at version {need.snapshot}"] if need.snapshot is not None else []
            after = [f"commits from version {need.position.version} on"] if need.position is not None else []
            rows.append(
                {
                    "table": str(table),
                    "consumer": need.consumer,
                    "who": need.who,
                    "version": need.version,
                    "latest": latest_version(settings, table),
                    "needs": " and ".join(whole + after),
                    "fault": need.fault,
                }
            )
    return rows


def _check_version(settings: Settings, table: str, version: int, latest: int) -> None:
    from spark_jobs.io.consumers import Need, needed_files

    if version > latest:
        raise UnknownName(f"{table} has no version {version}: it is at version {latest}.")
    if needed_files(settings, Need("", TableId.parse(table), snapshot=version)) is None:
        raise UnknownName(f"{table} cannot be read at version {version} any more: its log was cleaned up. It is at version {latest}.")


def _append(settings: Settings, row: dict[str, Any]) -> None:
    from spark_jobs.io.ops import Ops
    from spark_jobs.jobs.run import utc_now

    row |= {"who": _login(), "at": utc_now()}
    Ops(settings).append(CONSUMERS, [row])


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in many containers
        return "unknown"
