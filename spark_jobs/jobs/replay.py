"""Replay of bronze: the records of some files read again by today's parser, and silver brought to what they are now, in one commit.

A record that is in silver as today's parser reads it is left alone. One that was quarantined and now keeps the contract enters; one whose
values differ is replaced; one that breaks the contract now goes to quarantine, and the re-deliveries that it stood before are judged anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from spark_jobs.io.delta_changes import ENTER, LEAVE, SET
from spark_jobs.io.delta_tables import commit_of_batch, last_transaction, read_table
from spark_jobs.io.lake import lake_table
from spark_jobs.io.lease import Leases
from spark_jobs.jobs.first_arrivals import Deduplicated, deduplicate
from spark_jobs.jobs.publishing import Writer
from spark_jobs.jobs.replay_commit import Change, Replayed, Transaction, audit, commit_replay
from spark_jobs.jobs.replay_places import BAD, CASE, DUPLICATES, JUDGED_ANEW, QUARANTINED, SILVER, classify, parse_orphans
from spark_jobs.jobs.replay_quarantine import parse_again, quarantine_rows
from spark_jobs.jobs.run import Run
from spark_jobs.spec.books import Books
from spark_jobs.spec.replays import FROM_DUPLICATES, FROM_SILVER, replay_id
from spark_jobs.spec.tables import FILE_OUTCOMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OF_THE_PARSER = ("_rule", "_reason", "raw", "_due_at", CASE, "_at")  # what judged rows have beyond silver's columns


def replay_files(run: Run, leases: Leases, file_ids: Sequence[str], mark: str) -> Replayed:
    """Read the bronze records of these files again; the caller holds silver's lease. `mark` names the replay, which is carried out once.

    Records that silver has not taken from bronze yet, or that a gate holds, are left to those. Without a difference there is no commit.
    Raises GateStopped (nothing is committed then), LeaseLost, CheckpointDamaged, BooksUnbalanced; ConfigurationFault for a mark that is no
    plain word.
    """
    from spark_jobs.jobs.build_silver import silver_writer

    batch_id, table = replay_id(mark), run.pipeline.silver_table
    if lake_table(run.settings, table) is None or not file_ids:
        return Replayed()
    writer, transaction = silver_writer(run, leases), Transaction(f"{table}/{batch_id}", 1)
    if last_transaction(run.settings, table, transaction.app) is not None:
        committed = commit_of_batch(run.settings, table, batch_id) or {}
        return Replayed(**committed.get("replayed", {}))
    started_at = run.clock()
    records = bronze_records(run, file_ids)
    judged = parse_again(run, records, started_at, batch_id).persist()
    classified = classify(run, judged).persist()
    try:
        return _bring_up(writer, batch_id, transaction, classified, started_at)
    finally:
        classified.unpersist()
        judged.unpersist()


def bronze_records(run: Run, file_ids: Sequence[str]) -> DataFrame:
    """The bronze rows of these files, from the days on which they were read."""
    from pyspark.sql import functions as F

    mine = (pc.field("pipeline") == run.pipeline.name) & (pc.field("outcome") == "ok") & pc.field("file_id").isin(list(file_ids))
    read_at = run.ops.read(FILE_OUTCOMES, ["read_at"], mine)["read_at"].to_pylist()
    days = sorted({(at + timedelta(days=days)).date() for at in read_at for days in (-1, 0, 1)})  # a batch is of the day when it began
    wanted = run.spark.createDataFrame([(name,) for name in file_ids], "_file_id string")
    bronze = read_table(run.spark, run.settings, run.pipeline.bronze_table).where(F.col("_ingest_date").isin(days))
    return bronze.join(F.broadcast(wanted), on="_file_id", how="left_semi")


def _bring_up(writer: Writer, batch_id: str, transaction: Transaction, classified: DataFrame, as_of: datetime) -> Replayed:
    from pyspark.sql import functions as F

    run = writer.run
    counts = _counts(classified)
    leaving = classified.where(F.col(CASE).isin("moved", "broken"))
    if counts.get("moved", 0) + counts.get("broken", 0):
        classified = parse_orphans(run, classified, leaving, as_of, batch_id).persist()
        counts = _counts(classified)
    changing = sum(count for case, count in counts.items() if case not in ("unchanged", "still bad", "still duplicate"))
    again = classified.where(F.col(CASE).isin(*JUDGED_ANEW))
    days = [row[0] for row in again.select(run.pipeline.silver.date).distinct().collect()] if changing else []
    found = deduplicate(run, again.drop(*(name for name in OF_THE_PARSER if name != CASE)), days, batch_id, leaving.select("_rid"))
    entered = _counts(found.first) if found.count else {case: counts.get(case, 0) for case in JUDGED_ANEW}
    result = _result(counts, entered, found)
    if not changing:
        return result
    repeated = _counts(again.select("_rid", CASE).join(found.repeated.select("_rid"), on="_rid", how="left_semi")) if found.count else {}
    outcome = _audit(writer, batch_id, classified, found, counts, entered, as_of)
    dates, rows = _silver_rows(run, classified, found.first, counts)
    bad = classified.where(F.col(CASE).isin("broken", "reworded", "broken duplicate"))
    set_here, left = counts.get("changed", 0), counts.get("moved", 0) + counts.get("broken", 0)
    change = Change(
        batch_id, transaction, rows, quarantine_rows(bad), found.repeated if found.count else found.repeated.limit(0),
        _books(counts, entered, repeated), result, written=sum(entered.values()) + set_here, left=left, dates=dates,
        outcome=outcome,
    )  # fmt: skip
    commit_replay(writer, change, as_of)
    return result


def _silver_rows(run: Run, classified: DataFrame, first: DataFrame, counts: dict[str, int]) -> tuple[list[date], DataFrame]:
    """The dates in which rows of silver change or leave, and what to do in them (see `change_once`); or no date, and what enters."""
    from pyspark.sql import functions as F

    entering = first.drop(CASE)
    if not any(counts.get(case) for case in ("changed", "moved", "broken")):
        return [], entering
    here = classified.where(F.col(CASE).isin("changed", "moved", "broken"))
    dates = sorted(row[0] for row in here.select("_at").distinct().collect())
    change = F.when(F.col(CASE) == "changed", SET).otherwise(LEAVE).alias("_change")
    rows = here.select(*entering.columns, change, "_at")
    new = entering.withColumn("_change", F.lit(ENTER)).withColumn("_at", F.lit(None).cast("date"))
    return dates, rows.unionByName(new)


def _audit(
    writer: Writer, batch_id: str, classified: DataFrame, found: Deduplicated, counts: dict[str, int], entered: dict[str, int],
    as_of: datetime,
) -> str:  # fmt: skip
    """Judge all rows of these files that silver will have, as one batch of them."""
    from pyspark.sql import functions as F

    staying = classified.where(F.col(CASE).isin("unchanged", "changed")).drop(*OF_THE_PARSER)
    rows = staying.unionByName(found.first.drop(CASE)).persist()
    try:
        books = Books(
            read=sum(counts.values()),
            written=sum(entered.values()) + counts.get("unchanged", 0) + counts.get("changed", 0),
            quarantined=_sum(counts, BAD),
            duplicate=found.count + counts.get("still duplicate", 0),
        )
        return audit(writer, batch_id, rows, books, {"conflicting": found.conflicting, "as_of": as_of})
    finally:
        rows.unpersist()


def _books(counts: dict[str, int], entered: dict[str, int], repeated: dict[str, int]) -> dict[str, Books]:
    """Per origin of the records: where they are now. Records that stay where and as they are are in no equation."""
    found = {}
    for suffix, cases in (("", QUARANTINED), (FROM_SILVER, SILVER), (FROM_DUPLICATES, DUPLICATES)):
        books = Books(
            read=_sum(counts, cases),
            written=_sum(entered, cases) + (counts.get("changed", 0) if "changed" in cases else 0),
            quarantined=_sum(counts, [case for case in cases if case in BAD]),
            duplicate=_sum(repeated, cases),
        )
        if books.read:
            found[suffix] = books
    return found


def _result(counts: dict[str, int], entered: dict[str, int], found: Deduplicated) -> Replayed:
    return Replayed(
        recovered=_sum(entered, [case for case in JUDGED_ANEW if case != "moved"]),
        changed=counts.get("changed", 0) + entered.get("moved", 0),
        unchanged=counts.get("unchanged", 0),
        still_bad=_sum(counts, BAD),
        duplicate=found.count + counts.get("still duplicate", 0),
    )


def _counts(rows: DataFrame) -> dict[str, int]:
    return {row[CASE]: row["count"] for row in rows.groupBy(CASE).count().collect()}


def _sum(counts: dict[str, Any], cases: Iterable[str]) -> int:
    return reduce(lambda total, case: total + int(counts.get(case, 0)), cases, 0)
