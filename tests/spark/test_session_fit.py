"""A session that serves five records in one batch and 200,000 in the next is fitted to each."""

from spark_jobs.io.session import fit_session


def test_each_batch_of_a_stream_is_planned_as_its_size_asks(spark, tmp_path):
    session = spark.newSession()
    session.range(4).repartition(4).write.parquet(str(tmp_path / "in"))
    sizes, plans = iter([True, False, True]), []

    def process(batch, number):
        small = next(sizes)
        for one in (session, batch.sparkSession):
            fit_session(one, small=small)
        grouped = batch.groupBy((batch.id % 2).alias("odd")).count().persist()
        grouped.count()
        plan = grouped._jdf.queryExecution().executedPlan().toString()
        own = session.range(10).selectExpr("id + 1 as next")._jdf.queryExecution().executedPlan().toString()
        plans.append((small, "*(" in plan, "*(" in own, grouped.rdd.getNumPartitions()))
        grouped.unpersist()

    source = session.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    query = source.writeStream.foreachBatch(process).trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        query.awaitTermination()
    except Exception:
        assert len(plans) == 3, plans  # the fourth batch has no size
    assert [(small, own) for small, _, own, _ in plans] == [(True, False), (False, True), (True, False)]
    assert [partitions for *_, partitions in plans] == [1, 2, 1]
    assert [batch for _, batch, _, _ in plans] == [False, True, False]
