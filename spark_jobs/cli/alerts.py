"""`assay alerts`: what fires, since when, and where that was told; the rules; a test message; silence."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_jobs.cli.options import AsJson, Limit, PipelineName, pipelines
from spark_jobs.cli.terminal import print_json, print_table, say
from spark_jobs.spec.errors import ConfigurationFault, UnknownName
from spark_jobs.spec.settings import Settings, load_settings

if TYPE_CHECKING:
    from spark_jobs.io.incident_store import IncidentStore
    from spark_jobs.spec.alerts import AlertRule
    from spark_jobs.spec.incidents import Incident
    from spark_jobs.spec.pipeline import Pipeline

app = typer.Typer(invoke_without_command=True, help="What fires now, since when, and whether somebody was told.")

SHOWN = {
    "incident_id": "incident", "word": "state", "rule": "rule", "subject": "about", "since": "since (UTC)", "until": "until (UTC)",
    "not_told": "not told yet", "silenced": "silenced", "sentence": "what",
}  # fmt: skip
COLOURS = {"critical": "bold red", "warning": "yellow", "recovered": "green"}
LENGTHS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
LONGEST_SILENCE = timedelta(days=30)  # what should be silent for longer is not to be a rule: `without(...)` beside the pipeline

Everything = Annotated[bool, typer.Option("--all", help="Also what is over.")]


@app.callback()
def alerts(
    context: typer.Context, everything: Everything = False, limit: Limit = 50, pipeline: PipelineName = "", as_json: AsJson = False
) -> None:
    """Without a subcommand: the incidents that fire, worst first; with --all the history, newest first. Reads; makes no look of its own."""
    if context.invoked_subcommand is not None:
        return
    from spark_jobs.jobs.run import utc_now

    settings, now = load_settings(), utc_now()
    rows = [row for one in pipelines(pipeline) for row in _rows(settings, one, now, everything=everything)]
    rows = rows[:limit]
    if as_json:
        print_json(rows)
        return
    if rows:
        print_table(rows, SHOWN, styles=COLOURS)
    else:
        say("Nothing fires." if not everything else "There was no incident yet.")
    _say_channels(settings)


def _rows(settings: Settings, pipeline: Pipeline, now: datetime, *, everything: bool) -> list[dict[str, Any]]:
    from spark_jobs.io.incident_store import IncidentStore
    from spark_jobs.spec.incidents import SEVERITIES

    store = IncidentStore(settings, pipeline.name)
    silences = store.silences(now)
    found = []
    for one in store.known():
        if one.is_open or everything:
            silence = next((silence for silence in silences if silence.covers(one, now)), None)
            found.append(
                {
                    "incident_id": one.incident_id, "pipeline": one.pipeline, "state": one.state, "severity": one.severity,
                    "word": one.severity if one.is_open else one.state, "rule": one.rule, "subject": one.subject, "since": one.since,
                    "until": None if one.is_open else one.at, "not_told": ", ".join(store.untold(one)),
                    "silenced": f"until {silence.until:%H:%M} by {silence.who}" if silence else "", "sentence": one.sentence,
                }
            )  # fmt: skip
    if everything:
        return sorted(found, key=lambda row: row["since"], reverse=True)
    return sorted(found, key=lambda row: (SEVERITIES.index(row["severity"]), row["since"]))


def _say_channels(settings: Settings) -> None:
    from spark_jobs.io.channels import channels

    ways = channels(settings)
    if not ways:
        say(
            "NOBODY IS TOLD: set ASSAY_SMTP_HOST and ASSAY_ALERT_TO, or ASSAY_ALERT_WEBHOOK; `assay alerts test` tries them.",
            style="yellow",
        )


@app.command("rules")
def rules(pipeline: PipelineName = "", as_json: AsJson = False) -> None:
    """Each rule with its threshold, and the file in which it is set."""
    found = [
        {"pipeline": one.name, "rule": rule.name, "threshold": rule.threshold, "set_in": _set_in(one, rule)}
        for one in pipelines(pipeline)
        for rule in one.alerts
    ]
    found += [row for one in pipelines(pipeline) for row in _targets(one)]
    if as_json:
        print_json(found)
    else:
        print_table(found, {"pipeline": "pipeline", "rule": "rule", "threshold": "fires on", "set_in": "set in"})


def _set_in(pipeline: Pipeline, rule: AlertRule) -> str:
    from spark_jobs.spec.alerts import DEFAULT_ALERTS

    is_default = rule in DEFAULT_ALERTS
    return type(rule).__module__.replace(".", "/") + ".py" if is_default else f"spark_jobs/pipelines/{pipeline.name}/pipeline.py"


def _targets(pipeline: Pipeline) -> list[dict[str, Any]]:
    from spark_jobs.spec.moments import words

    return [
        {
            "pipeline": pipeline.name, "rule": f"freshness of {table}", "threshold": words(pipeline.freshness_of(table)),
            "set_in": "Pipeline.freshness_of",
        }
        for table in pipeline.all_tables
    ]  # fmt: skip


@app.command("look")
def look_now(pipeline: PipelineName = "", as_json: AsJson = False) -> None:
    """Make one look now: judge every rule, write what has changed, and tell it. What the scheduler does every five minutes."""
    from spark_jobs.jobs.run import utc_now
    from spark_jobs.jobs.watch import look

    done = {one.name: look(load_settings(), one, utc_now(), run_id="assay alerts look") for one in pipelines(pipeline)}
    if as_json:
        print_json({name: {"sentence": one.sentence, "undelivered": one.undelivered} for name, one in done.items()})
    else:
        for name, one in done.items():
            say(f"{name}: {one.sentence}")


@app.command("test")
def send_test(as_json: AsJson = False) -> None:
    """Send a test message through every channel that is configured, and say what arrived where. Writes nothing."""
    from spark_jobs.io.channels import Undelivered, channels
    from spark_jobs.jobs.run import utc_now
    from spark_jobs.report.notice import compose
    from spark_jobs.spec.incidents import Incident

    settings, now = load_settings(), utc_now()
    ways = channels(settings)
    if not ways:
        raise ConfigurationFault("No channel is configured: set ASSAY_SMTP_HOST and ASSAY_ALERT_TO, or ASSAY_ALERT_WEBHOOK.")
    text = "This is a test of the alerts. Nothing is wrong."
    incident = Incident(f"test_{now:%Y%m%d%H%M%S}", "test", "test", "assay alerts test", "firing", "info", text, now, now)
    notice = compose("test", [incident], form=settings.alert_webhook_form, lake=settings.lake_root)
    said: dict[str, str] = {}
    failed = []
    for channel, send in ways.items():
        try:
            said[channel] = f"sent to {send(notice)}"
        except Undelivered as fault:
            said[channel] = str(fault).replace(" It is sent again at the next look.", "")
            failed.append(channel)
    if as_json:
        print_json(said)
    else:
        for channel, sentence in said.items():
            say(f"{channel}: {sentence}", style="bold red" if channel in failed else "green")
    if failed:
        raise typer.Exit(1)


@app.command("silence")
def silence(
    what: Annotated[str, typer.Argument(help="An incident, as `assay alerts` shows it, or the name of a rule.")],
    length: Annotated[str, typer.Option("--for", help="How long, e.g. 30m, 2h, 1d.")] = "2h",
    note: Annotated[str, typer.Option("--note", help="Why; kept with your name.")] = "",
    pipeline: PipelineName = "",
    who: Annotated[str, typer.Option("--who", help="Your name.", show_default="the signed-in user")] = "",
) -> None:
    """Tell nobody that this fires, for a while. It is recorded, its recovery is told, and what fires still is told afterwards."""
    import getpass

    from spark_jobs.jobs.run import utc_now

    settings, now = load_settings(), utc_now()
    until = now + _length(length)
    store, rule, subject = _silenced(settings, pipeline, what)
    store.silence(rule, subject, until=until, who=who or getpass.getuser(), note=note, now=now)
    about = f"{rule} of {subject}" if subject else f"the rule {rule}"
    say(f"Silenced: {about}, until {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC. Its recovery is told all the same.")


def _silenced(settings: Settings, pipeline: str, what: str) -> tuple[IncidentStore, str, str]:
    from spark_jobs.io.incident_store import IncidentStore

    stores = {one.name: IncidentStore(settings, one.name) for one in pipelines(pipeline)}
    matching: list[tuple[IncidentStore, Incident]] = [
        (store, one) for store in stores.values() for one in store.known() if one.incident_id.startswith(what) and what.startswith("inc_")
    ]
    if len(matching) == 1:
        store, one = matching[0]
        return store, one.rule, one.subject
    of_rule = [one for one in pipelines(pipeline) if what in (rule.name for rule in one.alerts)]
    if len(of_rule) == 1:
        return stores[of_rule[0].name], what, ""
    if matching or of_rule:
        raise UnknownName(f"'{what}' is not only one thing: name the pipeline with --pipeline, or the whole incident.")
    raise UnknownName(f"There is no incident or rule '{what}'. `assay alerts` shows what fires, `assay alerts rules` the rules.")


def _length(text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,4})([mhd])", text)
    if found is None or not timedelta(0) < (length := int(found[1]) * LENGTHS[found[2]]) <= LONGEST_SILENCE:
        raise ConfigurationFault(f"--for '{text}' is not a length of at most 30 days; write 30m, 2h or 1d.")
    return length
