"""The shipped sample: an hour of real CloudTrail files, brought to the landing folder in two deliveries so that the increment is seen."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from spark_jobs.cli.airflow_home import PROJECT
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.settings import Settings

SAMPLE = PROJECT / "infra" / "sample" / "cloudtrail"
FIRST_DELIVERY_UNTIL = "20230710T1205Z"  # 7 files, 800 records; the other 29 hold 1,292
_TIME_IN_NAME = re.compile(r"_(\d{8}T\d{4}Z)_")


def deliveries() -> tuple[list[Path], list[Path]]:
    """The sample's files in two parts, each sorted, by the time in their names."""
    files = sorted(SAMPLE.rglob("*.json.gz"))
    first = [file for file in files if (found := _TIME_IN_NAME.search(file.name)) and found[1] <= FIRST_DELIVERY_UNTIL]
    return first, [file for file in files if file not in first]


def deliver(settings: Settings, files: list[Path]) -> int:
    """Copy those that are not in the landing folder yet, keeping their layout; returns how many there were."""
    landing = Path(settings.landing_root)
    missing = [file for file in files if not (landing / file.relative_to(SAMPLE)).exists()]
    try:
        for file in missing:
            target = landing / file.relative_to(SAMPLE)
            target.parent.mkdir(parents=True, exist_ok=True)
            half = target.with_name(f".{target.name}.part")  # a file appears whole or not at all
            shutil.copyfile(file, half)
            half.replace(target)
    except OSError as fault:
        raise ConfigurationFault(
            f"The sample cannot be copied to {landing}: {fault.strerror}. Make room or rights, or set ASSAY_LANDING."
        ) from None
    return len(missing)
