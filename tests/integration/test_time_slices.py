"""Silver is partitioned by date: a question about some dates opens only their files."""

from datetime import date

from spark_jobs.io.delta_tables import read_table
from tests.builders.events import event_text
from tests.builders.landing_files import document, log_path, packed

DAYS = (1, 2, 3, 4)


def test_a_time_slice_reads_only_the_files_of_its_dates(stack, spark):
    records = [event_text(day, eventTime=f"2024-05-0{day}T12:00:00Z").encode() for day in DAYS]
    stack.land(log_path(1), packed(document(records)))
    stack.discover()
    stack.run("bronze", "silver")
    silver = read_table(spark, stack.settings, stack.pipeline.silver_table)
    assert _files_read(silver) == len(DAYS)
    assert _files_read(silver.where(silver.event_date == date(2024, 5, 2))) == 1
    assert _files_read(silver.where("event_date >= '2024-05-03'")) == 2


def _files_read(frame):
    """How many files Spark opened to answer, from the metrics of its scan."""
    plan = frame.select("event_id")._jdf.queryExecution().executedPlan()
    plan.executeCollect()
    nodes, files = [plan], 0
    while nodes:
        node = nodes.pop()
        metric = node.metrics().get("numFiles")
        files += metric.get().value() if metric.isDefined() else 0
        children = node.children()
        nodes += [children.apply(number) for number in range(children.size())]
    return files
