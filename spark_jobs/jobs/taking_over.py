"""The first batches under a checkpoint made from the tables: what was left half done is taken out, what was taken is passed over."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltalake.exceptions import CommitFailedError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from spark_jobs.io.delta_changes import take_out_batches
from spark_jobs.io.delta_tables import read_table
from spark_jobs.io.lake import lake_table
from spark_jobs.jobs.publishing import Writer
from spark_jobs.spec.tables import BOOKS, FILE_OUTCOMES, SIDES, TableId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLAIN = re.compile(r"[A-Za-z0-9_.:+-]+")


def tidy_up(writer: Writer) -> None:
    """Take out, once, what batches of the generation before left without being committed. One look for a file when there is nothing."""
    run, voids = writer.run, [name for name in writer.generation.voids if _PLAIN.fullmatch(name)]
    if not voids or writer.checkpoint.is_tidied:
        return
    for side in map(writer.table.side, SIDES):
        writer.leases.check()
        take_out_batches(run.spark, run.settings, side, voids)
    writer.leases.check()
    if writer.layer == "bronze":
        _forget(writer, FILE_OUTCOMES, f"pipeline = '{run.pipeline.name}'", voids)
    _forget(writer, BOOKS, f"\"table\" = '{writer.table}'", voids)
    writer.checkpoint.say_tidied()
    run.say(f"{writer.table}: what {', '.join(voids)} left without being committed was taken out.")


def may_have_been_taken(writer: Writer, number: int) -> bool:
    """Whether rows of this batch may be in the tables already, since it begins before the place up to which that was seen."""
    until = writer.generation.taken_until
    return until >= 0 and writer.checkpoint.files.offset(number - 1)[0].version <= until


def not_taken_yet(writer: Writer, raw_records: DataFrame, number: int) -> DataFrame:
    """The records of a batch of silver that none of silver's tables has from before; all of them for nearly every batch."""
    from pyspark.sql import functions as F

    if not may_have_been_taken(writer, number):
        return raw_records
    run, table, batch_id = writer.run, writer.table, writer.checkpoint.batch_id(number)
    for known in (table, *map(table.side, SIDES)):
        if lake_table(run.settings, known) is not None:
            # What an earlier try of this very batch has left beside the table is written again.
            rids = read_table(run.spark, run.settings, known).where(F.col("_batch_id") != batch_id).select("_rid")
            raw_records = raw_records.join(rids, on="_rid", how="left_anti")
    return raw_records


@retry(
    retry=retry_if_exception_type(CommitFailedError),
    stop=stop_after_attempt(8),
    wait=wait_random_exponential(0.05, max=2),
    reraise=True,
)  # other layers write their own rows there meanwhile
def _forget(writer: Writer, table: TableId, mine: str, voids: Sequence[str]) -> None:
    opened = lake_table(writer.run.settings, table)
    if opened is not None:
        names = ", ".join(f"'{name}'" for name in voids)
        opened.delete(f"{mine} AND batch_id IN ({names})")
