"""The training job of the class-data archive: a small stream through the kinds of step that the real jobs take."""

import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SCRATCH = Path(os.environ["ASSAY_SCRATCH"])
SCHEMA = "eventID string, eventTime string, errorCode string, userIdentity struct<arn string>"


def main() -> None:
    session = (
        SparkSession.builder.appName("training")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    lines = [(f'{{"eventID":"{n}","eventTime":"2023-07-10T12:00:0{n}Z","userIdentity":{{"arn":"a{n}"}}}}', n) for n in range(8)]
    raw, events, windows = (str(SCRATCH / name) for name in ("raw", "events", "windows"))
    session.createDataFrame(lines, "raw string, number int").write.format("delta").save(raw)

    def publish(batch: DataFrame, _number: int) -> None:
        spark = batch.sparkSession
        parsed = batch.select(F.from_json("raw", SCHEMA).alias("event"), F.xxhash64("raw").alias("hash"))
        typed = parsed.select("event.*", "hash", F.try_to_timestamp("event.eventTime").alias("event_time")).persist()
        typed = typed.withColumn("event_date", F.to_date("event_time"))
        typed.count()
        if not Path(events).exists():
            typed.limit(0).write.format("delta").partitionBy("event_date").save(events)
        typed.createOrReplaceTempView("incoming")
        spark.sql(
            f"MERGE INTO delta.`{events}` t USING incoming s ON t.event_date = s.event_date AND t.eventID = s.eventID "
            "WHEN NOT MATCHED THEN INSERT *"
        )
        counts = spark.read.format("delta").load(events).groupBy(F.window("event_time", "15 minutes", "5 minutes"), "event_date")
        counted = counts.agg(F.count("*").alias("n"), F.countDistinct("userIdentity.arn").alias("who"), F.min("event_time").alias("first"))
        counted.write.format("delta").mode("overwrite").partitionBy("event_date").save(windows)
        batch.mapInPandas(lambda frames: frames, batch.schema).collect()

    stream = session.readStream.format("delta").load(raw)
    query = stream.writeStream.foreachBatch(publish).option("checkpointLocation", str(SCRATCH / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    session.stop()


if __name__ == "__main__":
    main()
