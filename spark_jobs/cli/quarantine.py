"""`assay quarantine`: what was kept out of the tables, in groups of one cause, for a person to work off."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_jobs.cli.job_process import JobFailed, run_job
from spark_jobs.cli.options import AsJson, Limit, PipelineName
from spark_jobs.cli.terminal import complain, print_json, print_table, say, shown
from spark_jobs.spec.errors import ConfigurationFault, GateStopped
from spark_jobs.spec.settings import Settings, load_settings
from spark_jobs.spec.tables import DISMISSALS

if TYPE_CHECKING:
    from spark_jobs.report.quarantine_groups import Group
    from spark_jobs.report.views import LakeViews

app = typer.Typer(invoke_without_command=True, help="The quarantine as a work queue: list, show, replay, dismiss.")

SHOWN = {
    "fingerprint": "fingerprint", "table": "table", "rule": "rule", "shape": "shape of the reason", "count": "records",
    "first_seen": "first (UTC)", "last_seen": "last (UTC)", "trend": "24 h / a day before", "is_growing": "growing", "in_words": "state",
}  # fmt: skip
FILES = {"file": "file", "count": "records", "last_seen": "last (UTC)"}
COLOURS = {"yes": "bold red", "open": "yellow", "open again": "yellow", "dismissed": "dim"}

Fingerprint = Annotated[str, typer.Argument(metavar="FINGERPRINT", help="As in the list; its first characters do, if no other begins so.")]
OfTable = Annotated[str, typer.Option("--table", help="Only this table, e.g. silver.cloudtrail_events.", show_default="all")]


@app.callback()
def quarantine(context: typer.Context) -> None:
    """Without a subcommand: list the open groups."""
    if context.invoked_subcommand is None:
        list_groups()


@app.command("list")
def list_groups(
    pipeline: PipelineName = "",
    table: OfTable = "",
    everything: Annotated[bool, typer.Option("--all", help="Also groups that a person dismissed or rejected.")] = False,
    as_json: AsJson = False,
) -> None:
    """Groups of quarantined records: rule, shape of the error, how many, since when, and whether they grow."""
    from spark_jobs.jobs.run import utc_now
    from spark_jobs.report.quarantine_groups import OPEN_STATES, growing_sentence, quarantine_groups

    groups = quarantine_groups(_views(load_settings()), utc_now(), pipeline=pipeline, table=table, also_closed=True)
    closed = sum(group["state"] not in OPEN_STATES for group in groups)
    groups = groups if everything else [group for group in groups if group["state"] in OPEN_STATES]
    if as_json:
        print_json(groups)
        return
    if groups:
        print_table([_row(group) for group in groups], SHOWN, styles=COLOURS)
    hidden = "" if everything or not closed else f" {closed} dismissed or rejected: --all."
    records = sum(group["count"] for group in groups)
    what = f"{records:,} records in {len(groups)} group{'s' if len(groups) != 1 else ''}." if groups else "No group is open."
    say(f"{what}{hidden}")
    if groups:
        say("`assay quarantine show FINGERPRINT` shows records and files; `replay` reads them again, `dismiss` takes a group off the list.")
    if growing := growing_sentence([group for group in groups if group["is_growing"]]):
        say(growing, style="bold red")


@app.command("show")
def show(name: Fingerprint, limit: Limit = 5, as_json: AsJson = False) -> None:
    """One group: its reason, some records (masked), and the files they came from."""
    from spark_jobs.report.quarantine_groups import files_of, sample_of

    settings = load_settings()
    views, group = _group(settings, name)
    sample, files = sample_of(views, group, limit), files_of(views, group, limit)
    if as_json:
        print_json(group | {"sample": sample, "files": files})
        return
    say(f"{group['fingerprint']}: {group['count']:,} records kept out of {group['table']}, rule {group['rule']}, {_in_words(group)}.")
    say(f"{group['shape']}")
    say(f"First {shown(group['first_seen'])}, last {shown(group['last_seen'])} UTC; {_trend(group)}{' (growing)' * group['is_growing']}.")
    for row in sample:
        say(f"  {row['rid']} (record {row['record_index']} of {row['file']}): {row['reason']}")
        say(f"    {row['masked']}")
    print_table(files, FILES)
    if group["table"].startswith("silver."):
        say(f"Read again by today's parser: `assay quarantine replay --fingerprint {group['fingerprint']}`.")


@app.command("dismiss")
def dismiss(
    name: Fingerprint,
    who: Annotated[str, typer.Option("--who", help="Name under which it is recorded.", show_default="your login name")] = "",
    note: Annotated[str, typer.Option("--note", help="Why; kept with it.")] = "",
    as_json: AsJson = False,
) -> None:
    """Take a group off the list. Its records stay in quarantine and in the books; new ones bring it back. Parked events never enter."""
    from spark_jobs.io.ops import Ops
    from spark_jobs.jobs.run import utc_now

    settings = load_settings()
    _, group = _group(settings, name)
    if group["state"] in ("dismissed", "rejected"):
        by = f" by {group['who']}" if group["who"] else " by a person"
        raise ConfigurationFault(f"The group {group['fingerprint']} was already {group['state']}{by}; no record came since.")
    row = {
        "pipeline": group["pipeline"], "table": group["table"], "fingerprint": group["fingerprint"], "rule": group["rule"],
        "rows": group["count"], "who": who or _login(), "note": note, "up_to": group["last_seen"], "dismissed_at": utc_now(),
    }  # fmt: skip
    Ops(settings).append(DISMISSALS, [row])
    follows = "they will not enter when their time has come" if group["state"] == "parked" else "they stay in quarantine and in the books"
    sentence = f"{group['fingerprint']} ({group['rule']}): {group['count']:,} records dismissed by {row['who']}; {follows}."
    if as_json:
        print_json(row | {"sentence": sentence})
    else:
        say(sentence)


@app.command("replay")
def replay(
    rule: Annotated[str, typer.Option("--rule", help="Only records that broke this rule.", show_default="all")] = "",
    name: Annotated[str, typer.Option("--fingerprint", help="Only this group.", show_default="all")] = "",
    table: OfTable = "",
    run_id: Annotated[str, typer.Option("--run-id", help="Name of the run in the books.", show_default="made from the time")] = "",
    as_json: AsJson = False,
) -> None:
    """Read quarantined records again with today's parser: what keeps the contract now is published once, the rest stays."""
    from spark_jobs.jobs.run import utc_now

    settings = load_settings()
    options: list[str] = []
    if name:
        _, group = _group(settings, name)
        table, options = group["table"], ["--fingerprint", group["fingerprint"]]
    if rule:
        options += ["--rule", rule]
    run_id = run_id or f"replay__{utc_now():%Y-%m-%dT%H:%M:%SZ}"
    answers, code = [], 0
    for pipeline, each in _replayed(table):
        words = ["--run-id", run_id, "--table", each, *options]
        try:
            answer = run_job("replay_quarantine", pipeline, words, quietly=as_json, again="assay quarantine replay")
        except JobFailed as ended:
            complain(str(ended))
            answer, code = ended.said or {"sentence": str(ended)}, code or ended.exit_code
        else:
            code = code or (GateStopped.exit_code if answer.get("stopped") else 0)
            if not as_json:
                say(answer["sentence"])
        answers.append({"table": each, **answer})
    if as_json:
        print_json(answers)
    if code:
        raise typer.Exit(code)


def _replayed(table: str) -> list[tuple[str, str]]:
    """Pipeline and silver table of what is to be replayed; raises a sentence for a table whose quarantine cannot be."""
    from spark_jobs.cli.options import pipelines

    declared = [(one.name, one.bronze_table, one.silver_table) for one in pipelines("")]
    for name, bronze, silver in declared:
        if table == str(bronze):
            raise ConfigurationFault(
                f"What {table} keeps out is no text that a record can have, so no parser can read it: mend the file and deliver it again."
            )
        if table == str(silver):
            return [(name, table)]
    if table:
        raise ConfigurationFault(f"{table} has no quarantine that can be replayed: {', '.join(str(silver) for _, _, silver in declared)}.")
    return [(name, str(silver)) for name, _, silver in declared]


def _views(settings: Settings) -> LakeViews:
    from spark_jobs.report.views import LakeViews

    return LakeViews(settings)


def _group(settings: Settings, name: str) -> tuple[LakeViews, Group]:
    from spark_jobs.jobs.run import utc_now
    from spark_jobs.report.quarantine_groups import find_group

    views = _views(settings)
    return views, find_group(views, utc_now(), name)


def _row(group: Group) -> dict[str, Any]:
    return group | {"trend": f"{group['last_24h']:,} / {group['mean_per_day']:,.1f}", "in_words": _in_words(group)}


def _trend(group: Group) -> str:
    return f"{group['last_24h']:,} in the last 24 h, {group['mean_per_day']:,.1f} a day before"


def _in_words(group: Group) -> str:
    if group["state"] == "parked":
        return f"parked until {shown(group['due_at'])}"
    by = f" by {group['who']}" if group["state"] in ("dismissed", "rejected") and group["who"] else ""
    return f"{group['state']}{by}"


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in many containers
        return "unknown"
