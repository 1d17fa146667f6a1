"""Replays in the books: records that were taken up once already are read again, so each must be counted once, not twice."""

from __future__ import annotations

import re

from spark_jobs.spec.errors import ConfigurationFault

PREFIX = "replay-"
FROM_SILVER, FROM_DUPLICATES = ".from-silver", ".from-duplicates"  # of a batch id; without them the records came from quarantine
_MARK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:+-]{0,150}")


def replay_id(mark: str) -> str:
    """The batch id of a replay. Raises ConfigurationFault for a mark that is no plain word."""
    if not _MARK.fullmatch(mark):
        raise ConfigurationFault(f"'{mark}' cannot be the name of a replay; use letters, digits and _ . : + -")
    return mark if mark.startswith(PREFIX) else f"{PREFIX}{mark}"


def taken_from(batch_id: str) -> str | None:
    """The term of the books under which the records of a replay were counted before; None for a batch that is no replay.

    The records that a replay reads were read once, by the batch that put them where they were: totals count them where they are now.
    """
    if not batch_id.startswith(PREFIX):
        return None
    return "written" if batch_id.endswith(FROM_SILVER) else "duplicate" if batch_id.endswith(FROM_DUPLICATES) else "quarantined"
