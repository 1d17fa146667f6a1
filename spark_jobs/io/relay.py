"""The relay: which continuous driver runs a pipeline, who waits to be the next, and the request that it end.

The driver of the moment holds the lease `_leases/_ops.<pipeline>_relay` from its first table to its last, also while it stands aside from
one of the tables. So an hourly run can see that the pipeline is run continuously, and the next driver when its turn has come.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from spark_jobs.io.lake import storage
from spark_jobs.io.lease import Lease
from spark_jobs.io.lease_holder import Holder
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings

REQUEST = "end.request"


@dataclass(frozen=True, slots=True)
class EndRequest:
    """Who asked the drivers of a pipeline to end, and when (epoch seconds): those that began before it end."""

    who: str
    at: float


def driver_of(settings: Settings, pipeline: Pipeline) -> Holder | None:
    """The continuous driver that is alive; None when there is none."""
    return Lease(settings, pipeline.relay, "").holder()


def driver_and_epoch(settings: Settings, pipeline: Pipeline) -> tuple[int, Holder | None]:
    """The newest epoch of the relay (0: there never was a driver), and the driver that is alive."""
    lease = Lease(settings, pipeline.relay, "")
    return lease.newest_epoch(), lease.holder()


def successors(settings: Settings, pipeline: Pipeline) -> list[str]:
    """The owners of the drivers that wait to be the next."""
    return [mark.owner for mark in Lease(settings, pipeline.relay, "").marks()]


def run_continuously(settings: Settings, pipeline: Pipeline) -> str | None:
    """The sentence for an hourly run that meets a continuous driver; None when there is none."""
    holder = driver_of(settings, pipeline)
    if holder is None:
        return None
    since = datetime.fromtimestamp(holder.since, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return (
        f"{pipeline.name} is run continuously by {holder.owner} (process {holder.pid} on {holder.host}) since {since} UTC; "
        f"an hourly run has nothing to do. `assay stream stop` ends it at a batch boundary."
    )


def ask_to_end(settings: Settings, pipeline: Pipeline, who: str) -> None:
    """Leave the request for all drivers of the pipeline that have begun before now, also for one that waits to be the next."""
    fs, folder = _folder(settings, pipeline)
    fs.makedirs(folder, exist_ok=True)
    fs.pipe_file(f"{folder}/{REQUEST}", json.dumps({"who": who, "at": time.time()}).encode())


def end_request(settings: Settings, pipeline: Pipeline, since: float) -> EndRequest | None:
    """A request that was left after this instant (epoch seconds)."""
    fs, folder = _folder(settings, pipeline)
    with suppress(FileNotFoundError, ValueError, KeyError):
        said = json.loads(fs.cat_file(f"{folder}/{REQUEST}"))
        if said["at"] > since:
            return EndRequest(str(said["who"]), float(said["at"]))
    return None


def _folder(settings: Settings, pipeline: Pipeline):  # type: ignore[no-untyped-def]
    fs, root = storage(settings.lake_root)
    return fs, f"{root}/_leases/{pipeline.relay}"
