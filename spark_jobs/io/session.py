"""The one place that builds a Spark session."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from spark_jobs.io.java import check_java
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.adaptive.enabled": "false",  # batches are of known, bounded size; re-planning them costs more than it saves
    "spark.databricks.delta.snapshotPartitions": "1",  # the log of a table is small; 50 tasks to read it are not
    "spark.databricks.delta.stats.skipping": "true",
    # A checkpoint would remove commits that a paused stream has still to read; maintenance knows who reads, and removes the others.
    "spark.databricks.delta.properties.defaults.enableExpiredLogCleanup": "false",
    "spark.sql.inMemoryColumnarStorage.compressed": "false",  # the batch is cached for seconds: speed before size
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",  # 2,000 records of 1.4 kB: 3 MB per Arrow batch
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.streaming.stopActiveRunOnRestart": "false",
    # Else each call on a column asks the JVM for the session, a setting and the caller's line: eight trips for one, several hundred times.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Each execution describes its plan to listeners; those of Delta's own queries come to 50,000 characters each.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.debug.maxToStringFields": "5",
    "spark.sql.json.enableExactStringParsing": "true",  # sub-trees kept as text stay exactly as they came
}

# Generating and compiling code for a few thousand rows costs more than it saves (38 to 28 CPU-s for a whole small run); for 200,000 rows it
# is the reverse, by a minute.
# Whole-stage stays "on": without a code factory no plan uses it, but without it Parquet is read row by row, by generated code.
SMALL_CONF = {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}

LARGE_CONF = {"spark.sql.codegen.factoryMode": "FALLBACK"}  # Spark's own default


def fit_session(session: SparkSession, *, small: bool) -> None:
    """Make an open session plan what comes next as for little or for much input. Seen by the next plan, not by one at work."""
    for name, value in {**(SMALL_CONF if small else LARGE_CONF), "spark.sql.shuffle.partitions": _partitions(small=small)}.items():
        if session.conf.get(name, None) != value:
            session.conf.set(name, value)


def _partitions(*, small: bool) -> str:
    return "1" if small else str(min(os.cpu_count() or 1, 8))


def open_session(settings: Settings, name: str, *, small: bool) -> SparkSession:
    """A session for one job: `small` when little input is pending. Raises ConfigurationFault when Java or Delta is not usable."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name).config(map=CONF).config("spark.sql.shuffle.partitions", _partitions(small=small))
    builder = builder.config("spark.sql.warehouse.dir", str(settings.home.absolute() / "warehouse"))  # not in the folder it is started from
    if small:
        builder = builder.config(map=SMALL_CONF)
    if "SPARK_ENV_LOADED" not in os.environ:  # started as plain Python, not by spark-submit, which brings master, jars and memory itself
        from spark_jobs.io.java_options import archive_options, driver_class_path

        check_java(os.environ)
        if not list((settings.home.absolute() / "jars").glob("delta-spark_*.jar")):
            raise ConfigurationFault(f"The Delta jars are not in {settings.home.absolute()}/jars. Run `make setup`, which fetches them.")
        builder = (
            builder.master(settings.master)
            .config("spark.driver.memory", settings.driver_memory)
            .config("spark.driver.extraClassPath", driver_class_path(settings))
            .config("spark.driver.extraJavaOptions", archive_options(settings, small=small))
        )
    try:
        session = builder.getOrCreate()
    except PySparkRuntimeError as fault:
        raise ConfigurationFault(f"Spark did not start: {fault}. It needs Java 17 or 21: set JAVA_HOME, or run `make setup`.") from None
    session.sparkContext.setLogLevel("ERROR")
    log4j = session._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    # What a batch raises reaches its job as a Python exception; Spark's own print of it, 60 lines long, would bury the sentence.
    log4j.core.config.Configurator.setLevel("org.apache.spark.sql.execution.streaming", log4j.Level.OFF)
    try:
        session._jvm.java.lang.Class.forName("io.delta.sql.DeltaSparkSessionExtension")  # type: ignore[union-attr]
    except Exception:
        raise ConfigurationFault(
            f"The Delta jars are not on Spark's class path ({settings.home}/jars). Run `make setup`, which fetches them."
        ) from None
    return session
