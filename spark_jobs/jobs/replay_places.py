"""Where the records of a replay are now, and what today's parser means for each: one word per record (`_case`)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from spark_jobs.io.delta_changes import rows_by_rid
from spark_jobs.io.delta_tables import read_table
from spark_jobs.io.lake import lake_table
from spark_jobs.jobs.replay_quarantine import parse_again
from spark_jobs.jobs.run import Run

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CASE = "_case"
# Of records in silver. unchanged: as today's parser reads them. changed: other values. moved: another key or date. broken: bad today.
SILVER = ("changed", "moved", "broken")
# Of quarantined records. recovered: good today. reworded: bad for another reason. still bad: for the same one.
QUARANTINED = ("recovered", "reworded")
# Of re-deliveries. still duplicate: nothing to do. promoted: what stood before it leaves, or its own key is another one.
DUPLICATES = ("promoted", "broken duplicate")
JUDGED_ANEW = ("recovered", "moved", "promoted")
BAD = ("broken", "reworded", "still bad", "broken duplicate")


def classify(run: Run, judged: DataFrame) -> DataFrame:
    """Parsed rows with `_case` and `_at` (the date under which silver has the record).

    Left out are records that silver has not taken in yet, held ones, those that a person rejected (only `assay quarantine replay` takes
    them up, by name), and parked ones, which have a time of their own.
    """
    from pyspark.sql import functions as F

    table, key, date_column = run.pipeline.silver_table, run.pipeline.silver.key, run.pipeline.silver.date
    is_good = F.col("_rule").isNull()
    standing = _standing(run, judged)
    typed = [name for name in judged.columns if name not in ("_rid", "_batch_id", "raw", "_rule", "_reason", "_due_at")]
    here = judged.join(standing, on="_rid", how="inner")
    is_same = F.struct(*typed).eqNullSafe(F.col("_now"))
    in_place = F.col(key).eqNullSafe(F.col(f"_now.{key}")) & F.col(date_column).eqNullSafe(F.col(f"_now.{date_column}"))
    case = F.when(~is_good, "broken").when(is_same, "unchanged").when(in_place, "changed").otherwise("moved")
    found = here.withColumn(CASE, case).withColumn("_at", F.col(f"_now.{date_column}")).drop("_now")
    no_date = F.lit(None).cast("date")
    quarantine, duplicates = table.side("quarantine"), table.side("duplicates")
    if lake_table(run.settings, quarantine) is not None:
        known = read_table(run.spark, run.settings, quarantine)
        known = known.where("rule != 'rejected'" + (" and due_at is null" if "due_at" in known.columns else ""))
        known = known.select("_rid", F.col("rule").alias("_rule_now"), F.col("reason").alias("_reason_now"))
        is_same = F.col("_rule").eqNullSafe(F.col("_rule_now")) & F.col("_reason").eqNullSafe(F.col("_reason_now"))
        here = judged.join(known, on="_rid", how="inner")
        case = F.when(is_good, "recovered").when(is_same, "still bad").otherwise("reworded")
        found = found.unionByName(here.withColumn(CASE, case).withColumn("_at", no_date).drop("_rule_now", "_reason_now"))
    if lake_table(run.settings, duplicates) is not None:
        known = read_table(run.spark, run.settings, duplicates)
        known = known.select("_rid", F.col(key).alias("_key_now"), F.col(date_column).alias("_date_now"))
        in_place = F.col(key).eqNullSafe(F.col("_key_now")) & F.col(date_column).eqNullSafe(F.col("_date_now"))
        case = F.when(~is_good, "broken duplicate").when(in_place, "still duplicate").otherwise("promoted")
        here = judged.join(known, on="_rid", how="inner")
        found = found.unionByName(here.withColumn(CASE, case).withColumn("_at", no_date).drop("_key_now", "_date_now"))
    return found


def parse_orphans(run: Run, classified: DataFrame, leaving: DataFrame, as_of: datetime, batch_id: str) -> DataFrame:
    """The classified rows, and with them every re-delivery of what leaves silver, judged anew: one of them may be the first arrival now."""
    from pyspark.sql import functions as F

    duplicates = run.pipeline.silver_table.side("duplicates")
    if lake_table(run.settings, duplicates) is None:
        return classified
    known = read_table(run.spark, run.settings, duplicates)
    orphans = known.join(leaving.select(F.col("_rid").alias("kept_rid")), on="kept_rid", how="left_semi").select("_rid", "_ingested_at")
    days = [row[0] for row in orphans.select(F.to_date("_ingested_at")).distinct().collect()]
    if not days:
        return classified
    rids = rows_by_rid(run.spark, [row["_rid"] for row in orphans.select("_rid").collect()])
    bronze = read_table(run.spark, run.settings, run.pipeline.bronze_table).where(F.col("_ingest_date").isin(days))
    judged = parse_again(run, bronze.join(F.broadcast(rids), on="_rid", how="left_semi"), as_of, batch_id)
    case = F.when(F.col("_rule").isNull(), "promoted").otherwise("broken duplicate")
    judged = judged.withColumn(CASE, case).withColumn("_at", F.lit(None).cast("date"))
    return classified.join(F.broadcast(rids), on="_rid", how="left_anti").unionByName(judged)


def _standing(run: Run, judged: DataFrame) -> DataFrame:
    """The records that silver has: `_rid`, and `_now`, its typed columns as a struct in the order of `judged`.

    Looked for under today's dates first; the rest (not known to any side table, so perhaps under another date) in all of silver.
    """
    from pyspark.sql import functions as F

    table, date_column = run.pipeline.silver_table, run.pipeline.silver.date
    silver = read_table(run.spark, run.settings, table)
    rids = judged.select("_rid")
    dates = [row[0] for row in judged.where("_rule is null").select(date_column).distinct().collect()]
    standing = silver.where(F.col(date_column).isin(dates)).join(rids, on="_rid", how="left_semi")
    placed = standing.select("_rid")
    for side in ("quarantine", "duplicates", "held"):
        if lake_table(run.settings, table.side(side)) is not None:
            placed = placed.unionByName(read_table(run.spark, run.settings, table.side(side)).select("_rid"))
    elsewhere = rids.join(placed, on="_rid", how="left_anti").persist()
    if not elsewhere.isEmpty():
        others = silver.where(~F.col(date_column).isin(dates)) if dates else silver
        standing = standing.unionByName(others.join(elsewhere, on="_rid", how="left_semi"))
    kinds = {field.name: field.dataType for field in judged.schema.fields}
    typed = [name for name in judged.columns if name not in ("_rid", "_batch_id", "raw", "_rule", "_reason", "_due_at")]
    columns: list[Column] = [F.col(name) if name in silver.columns else F.lit(None).cast(kinds[name]).alias(name) for name in typed]
    return standing.select("_rid", F.struct(*columns).alias("_now"))
