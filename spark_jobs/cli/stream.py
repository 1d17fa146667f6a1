"""`assay stream`: run a pipeline continuously without Airflow, ask the driver of the moment to end, and see who runs."""

from __future__ import annotations

import getpass
import signal
import socket
import time
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from spark_jobs.cli.options import AsJson
from spark_jobs.cli.terminal import complain, print_json, print_table, say
from spark_jobs.spec.errors import AssayError
from spark_jobs.spec.pipeline import Pipeline, load_pipeline
from spark_jobs.spec.settings import Settings, load_settings

app = typer.Typer(no_args_is_help=True, help="Continuous runs: start, stop, status. One driver at a time, wherever it runs.")

Name = Annotated[str, typer.Option("--pipeline", "-p", help="Of this pipeline.")]
EVENTS = {"at": "at (UTC)", "table": "of", "event": "event", "sentence": "what", "error": "error", "run_id": "run"}
LAST = {"table": "table", "batch_id": "last batch", "finished_at": "finished (UTC)", "equation": "books"}
COLOURS = {"terminated": "dim", "crash_loop": "bold red", "started": "green", "resumed": "green"}


class StillRunning(AssayError):
    """A driver that was asked to end is at work longer than the command waits."""


@app.command("start")
def start(
    pipeline: Name = "cloudtrail",
    lifetime_min: Annotated[float | None, typer.Option(help="A driver lives this long, then the next one takes over.", min=0.1)] = None,
) -> None:
    """Run the pipeline continuously in the foreground, until Ctrl-C, SIGTERM or `assay stream stop`. A driver that fails is restarted."""
    from spark_jobs.cli.stream_keeper import Keeper
    from spark_jobs.jobs.run import Run

    settings, declared = load_settings(), load_pipeline(pipeline)
    run = Run(settings, declared, f"assay stream start on {socket.gethostname()}")
    keeper = Keeper(run, lifetime_min or settings.lifetime_min, complain)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, keeper.end)
    last = keeper.keep()
    say(f"{pipeline} is not run continuously by this command any more: {last.get('sentence') or 'nothing was started.'}")


@app.command("stop")
def stop(
    pipeline: Name = "cloudtrail",
    wait_s: Annotated[int, typer.Option(help="How long to wait for the end.", min=0)] = 600,
    as_json: AsJson = False,
) -> None:
    """Ask the driver, wherever it runs on this lake, to end at a batch boundary, and wait for it."""
    from spark_jobs.io.relay import ask_to_end, driver_of

    settings, declared = load_settings(), load_pipeline(pipeline)
    holder, began = driver_of(settings, declared), time.time()
    if holder is None:
        _told({"pipeline": pipeline, "was_running": False, "sentence": f"{pipeline} is not run continuously."}, as_json)
        return
    ask_to_end(settings, declared, f"{getpass.getuser()}@{socket.gethostname()}")
    while (now := driver_of(settings, declared)) is not None and now.since < began:
        if time.time() - began >= wait_s:
            raise StillRunning(f"{pipeline} is still run by {now}; it was asked to end and does so after its batch. Wait, and ask again.")
        time.sleep(0.5)
    sentence = f"{pipeline} was run continuously by {holder.owner}; it has ended at a batch boundary after {time.time() - began:.0f} s."
    if "__" in holder.owner and not holder.owner.startswith("stream__"):
        sentence += f" Airflow starts the next run by itself: pause {pipeline}_continuous to switch to hourly runs."
    _told({"pipeline": pipeline, "was_running": True, "owner": holder.owner, "sentence": sentence}, as_json)


@app.command("status")
def status(pipeline: Name = "cloudtrail", as_json: AsJson = False) -> None:
    """Who runs the pipeline continuously, since when and for how long, the newest batch of each table, and what happened lately."""
    settings, declared = load_settings(), load_pipeline(pipeline)
    found = stream_status(settings, declared)
    if as_json:
        print_json(found)
        return
    say(found["sentence"], style="green" if found["is_running"] else "yellow")
    if found["batches"]:
        print_table(found["batches"], LAST)
    if found["events"]:
        print_table([event | {"table": event["table"] or "driver"} for event in found["events"]], EVENTS, styles=COLOURS)


def stream_status(settings: Settings, pipeline: Pipeline, events: int = 12) -> dict[str, Any]:
    """What `assay stream status --json` prints."""
    from spark_jobs.io.relay import driver_and_epoch, successors
    from spark_jobs.jobs.query_events import newest_batches, newest_events

    epoch, holder = driver_and_epoch(settings, pipeline)
    waiting = successors(settings, pipeline)
    now = datetime.now(UTC)
    found: dict[str, Any] = {"pipeline": pipeline.name, "at": now, "is_running": holder is not None, "epoch": epoch, "waiting": waiting}
    if holder is None:
        sentence = f"{pipeline.name} is not run continuously."
    else:
        since, sign = (datetime.fromtimestamp(at, UTC) for at in (holder.since, holder.renewed_at))
        left_s = max(0.0, holder.until - now.timestamp()) if holder.until else None
        found |= {
            "owner": holder.owner, "host": holder.host, "pid": holder.pid, "since": since, "last_sign_of_life": sign, "left_s": left_s,
        }  # fmt: skip
        left = f", {left_s / 60:.0f} min of its lifetime left" if left_s is not None else ""
        sentence = (
            f"{pipeline.name} is run continuously by {holder.owner} (process {holder.pid} on {holder.host}) since "
            f"{since:%Y-%m-%d %H:%M:%S} UTC{left}; epoch {epoch}, last sign of life {sign:%H:%M:%S}."
        )
    if waiting:
        sentence += f" {', '.join(waiting)} waits to be the next."
    happened = newest_events(settings, pipeline, events, since=now - timedelta(days=7))
    return found | {"sentence": sentence, "batches": newest_batches(settings, pipeline), "events": happened}


def _told(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        say(answer["sentence"])
