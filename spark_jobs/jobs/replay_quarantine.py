"""Replay of quarantine: its records read again by today's parser. What keeps the contract now enters silver once, the rest stays.

Reads `silver.<pipeline>_<entity>_quarantine` (and bronze, for records whose text it has); writes silver, its quarantine and duplicates.
Parked events whose time has come are taken up in the same way by every run of silver.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from spark_jobs.io.delta_changes import rows_by_rid
from spark_jobs.io.delta_tables import last_transaction, read_table
from spark_jobs.io.lake import lake_table
from spark_jobs.io.lease import Leases
from spark_jobs.io.parked import due_rids
from spark_jobs.jobs.first_arrivals import deduplicate
from spark_jobs.jobs.publishing import Writer
from spark_jobs.jobs.replay_commit import Change, Replayed, Transaction, audit, commit_replay
from spark_jobs.jobs.run import Run, leave, run_job
from spark_jobs.spec.books import Books
from spark_jobs.spec.errors import ConfigurationFault, GateStopped
from spark_jobs.spec.replays import PREFIX
from spark_jobs.spec.tables import TableId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LINEAGE = ("_rid", "_source_file", "_record_index", "_file_sha256", "_ingested_at", "_batch_id")


def replay_quarantine(run: Run, leases: Leases, table: TableId, *, rule: str = "", fingerprint: str = "") -> Replayed:
    """Read the table's quarantined records again: those of a rule, of a group, or all but what a person rejected or dismissed.

    Running it twice changes nothing. Raises ConfigurationFault for a table that has none, UnknownName for a group, GateStopped when what
    was recovered did not pass silver's gate (nothing is committed then), LeaseHeld, BooksUnbalanced.
    """
    from spark_jobs.jobs.build_silver import silver_writer

    if table != run.pipeline.silver_table:
        raise ConfigurationFault(
            f"The quarantine of {table} cannot be replayed, only that of {run.pipeline.silver_table}. "
            f"What bronze keeps out is no text that a record can have: mend the file and deliver it again."
        )
    if lake_table(run.settings, table.side("quarantine")) is None:
        return Replayed()
    writer = silver_writer(run, leases)
    now = run.clock()
    return replay_rids(writer, chosen_rids(run, table, now, rule=rule, name=fingerprint), now)


def readmit_due(writer: Writer) -> None:
    """Take up parked events whose time has come. A gate that stops them is told and stops nothing else: they stay parked."""
    run = writer.run
    now = run.clock()
    rids = due_rids(run.settings, run.pipeline, now)
    if not rids:
        return
    run.say(f"{writer.table}: {len(rids):,} parked event{'s are' if len(rids) != 1 else ' is'} due.")
    try:
        replay_rids(writer, rids, now)
    except GateStopped as stopped:
        run.say(str(stopped))


def chosen_rids(run: Run, table: TableId, now: datetime, *, rule: str = "", name: str = "") -> list[str]:
    """The quarantined records that a replay is asked for. What a person rejected is taken only when its rule or group is named."""
    from spark_jobs.report.quarantine_groups import OPEN_STATES, find_group, quarantine_groups, rids_of
    from spark_jobs.report.views import LakeViews

    views = LakeViews(run.settings)
    if name:
        groups = [find_group(views, now, name)]
    else:
        groups = quarantine_groups(views, now, table=str(table), also_closed=True)
    groups = [group for group in groups if group["table"] == str(table) and rule in ("", group["rule"])]
    if not (name or rule):
        groups = [group for group in groups if group["state"] in OPEN_STATES]
    # A parked event that a person rejected never enters, whoever asks for its group.
    named = bool(name or rule)
    return sorted(rid for group in groups for rid in rids_of(views, group, also_dismissed=named and not group["is_parked"]))


def replay_rids(writer: Writer, rids: Sequence[str], as_of: datetime) -> Replayed:
    """Read these quarantined records again, times judged as of `as_of`. No commit when nothing would change."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    run, table = writer.run, writer.table
    if not rids:
        return Replayed()
    started_at, app = run.clock(), f"{table}/replays"
    number = (last_transaction(run.settings, table, app) or 0) + 1
    batch_id = f"{PREFIX}{number:08d}"
    quarantined = read_table(run.spark, run.settings, table.side("quarantine"))
    quarantined = quarantined.join(F.broadcast(rows_by_rid(run.spark, rids)), on="_rid", how="left_semi")
    before = quarantined.select("_rid", F.col("rule").alias("_rule_before"), F.col("reason").alias("_reason_before"))
    judged = parse_again(run, with_raw(run, quarantined), as_of, batch_id)
    judged = judged.join(F.broadcast(before), on="_rid", how="inner").persist(StorageLevel.MEMORY_AND_DISK)
    try:
        date_column = run.pipeline.silver.date
        is_other = ~(F.col("_rule").eqNullSafe(F.col("_rule_before")) & F.col("_reason").eqNullSafe(F.col("_reason_before")))
        groups = judged.groupBy(date_column, F.col("_rule").isNull().alias("good"), is_other.alias("other")).count().collect()
        good = judged.where("_rule is null").drop("_rule", "_reason", "raw", "_due_at", "_rule_before", "_reason_before")
        still_bad, recovered = (sum(row["count"] for row in groups if row["good"] is is_good) for is_good in (False, True))
        found = deduplicate(run, good, [row[date_column] for row in groups if row["good"]], batch_id)
        entering = found.first.count() if found.count else recovered
        result = Replayed(recovered=entering, still_bad=still_bad, duplicate=found.count)
        if not any(row["good"] or row["other"] for row in groups):
            return result
        leaving = Books(read=recovered, written=entering, duplicate=found.count)
        facts = {"conflicting": found.conflicting, "as_of": as_of}
        outcome = audit(writer, batch_id, found.first, leaving, facts) if recovered else "pass"
        books = Books(read=sum(row["count"] for row in groups), written=entering, quarantined=still_bad, duplicate=found.count)
        rewritten = quarantine_rows(judged.where(F.col("_rule").isNotNull() & is_other))
        change = Change(
            batch_id, Transaction(app, number), found.first, rewritten, found.repeated if found.count else found.repeated.limit(0),
            {"": books}, result, written=entering, outcome=outcome,
        )  # fmt: skip
        commit_replay(writer, change, started_at)
        return result
    finally:
        judged.unpersist()


def parse_again(run: Run, raw_records: DataFrame, as_of: datetime, batch_id: str) -> DataFrame:
    """What today's parser makes of raw records; times are compared with `as_of` where that is later than their arrival."""
    from pyspark.sql import functions as F

    parse = importlib.import_module(f"spark_jobs.pipelines.{run.pipeline.name}.silver").parse_events
    parsed: DataFrame = parse(raw_records.withColumn("_as_of", F.greatest("_ingested_at", F.lit(as_of))))
    return parsed.withColumn("_batch_id", F.lit(batch_id))


def quarantine_rows(judged: DataFrame) -> DataFrame:
    """Parsed rows that break the contract as rows of silver's quarantine."""
    from pyspark.sql import functions as F

    rule, reason, due_at = F.col("_rule").alias("rule"), F.col("_reason").alias("reason"), F.col("_due_at").alias("due_at")
    return judged.select("_rid", rule, reason, "raw", due_at, *LINEAGE[1:])


def with_raw(run: Run, quarantined: DataFrame) -> DataFrame:
    """Quarantined rows as raw records. Rows that a person rejected carry no text: it is bronze's, on the days of their arrival."""
    from pyspark.sql import functions as F

    rows = quarantined.select(*LINEAGE, "raw")
    days = [row[0] for row in rows.where("raw is null").select(F.to_date("_ingested_at")).distinct().collect()]
    if not days:
        return rows
    bronze = read_table(run.spark, run.settings, run.pipeline.bronze_table).where(F.col("_ingest_date").isin(days))
    texts = bronze.join(F.broadcast(rows.where("raw is null").select("_rid")), on="_rid", how="left_semi")
    texts = texts.select("_rid", F.col("raw").alias("_text"))
    return rows.join(texts, on="_rid", how="left").withColumn("raw", F.coalesce("raw", "_text")).drop("_text")


def _work(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """Read quarantined records again with today's parser, under silver's lease."""
    table = TableId.parse(options.table) if options.table else run.pipeline.silver_table
    try:
        with Leases(run.settings, [run.pipeline.silver_table], run.run_id) as leases:
            done = replay_quarantine(run, leases, table, rule=options.rule, fingerprint=options.fingerprint)
    except GateStopped as stopped:
        run.say(str(stopped))
        return {"recovered": 0, "still_bad": 0, "duplicate": 0, "stopped": str(stopped), "sentence": str(stopped)}
    finally:
        if run.has_session:
            run.spark.stop()
    counted = {"recovered": done.recovered, "still_bad": done.still_bad, "duplicate": done.duplicate, "stopped": None}
    if not any((done.recovered, done.still_bad, done.duplicate)):
        return counted | {"sentence": f"{table}: no quarantined record matches, so nothing was read again."}
    return counted | {"sentence": f"{table}: read again with today's parser: {done.sentence()}."}


def add_replay_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--table", default="", help="whose quarantine, e.g. silver.cloudtrail_events; default: the pipeline's silver table")
    parser.add_argument("--rule", default="", help="only records that broke this rule")
    parser.add_argument("--fingerprint", default="", help="only this group; see `assay quarantine list`")


if __name__ == "__main__":
    leave(run_job("replay_quarantine", _work, add_replay_options))
