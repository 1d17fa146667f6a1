"""The training job of the class-data archive: the real three layers, gates and all, on the shipped sample in a folder of its own.

The first delivery runs as large input does (generated code), the second as small input does, onto tables that exist: together
they load what the drivers of an hourly run and of a backfill load.
"""

import os
from pathlib import Path

from spark_jobs.cli.sample import deliver, deliveries
from spark_jobs.io.ledger import discover
from spark_jobs.jobs.run import Run, utc_now
from spark_jobs.jobs.run_layers import run_layers
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.settings import load_settings

SCRATCH = Path(os.environ["ASSAY_SCRATCH"])


def main() -> None:
    pipeline = load_pipeline("cloudtrail")
    for number, (delivery, small_mb) in enumerate(zip(deliveries(), (0, 8), strict=True), start=1):
        settings = load_settings(lake=str(SCRATCH / "lake"), landing=str(SCRATCH / "landing"), small_mb=small_mb)
        deliver(settings, delivery)
        discover(settings, pipeline, f"training-{number}", utc_now())
        run_layers(Run(settings, pipeline, f"training-{number}"))


if __name__ == "__main__":
    main()
