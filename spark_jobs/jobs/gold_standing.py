"""Whether a gold table is what the silver version that it names had; asked without a JVM."""

from __future__ import annotations

from spark_jobs.io.delta_log import latest_version
from spark_jobs.io.lake import lake_table
from spark_jobs.io.work import check_gold_in_force, named_silver_version
from spark_jobs.jobs.run import Run
from spark_jobs.jobs.silver_in_force import refuse_changes_by_others
from spark_jobs.spec.errors import AssayError, CheckpointDamaged
from spark_jobs.spec.tables import TableId


def gold_fault(run: Run, table: TableId) -> AssayError | None:
    """What is wrong with a gold table so that no run can go on from it; None when nothing is, or when it was never written."""
    settings, pipeline = run.settings, run.pipeline
    if lake_table(settings, table) is None:
        return None
    named, latest = named_silver_version(settings, pipeline, table), latest_version(settings, pipeline.silver_table)
    again = f"`assay doctor --rebuild {table}` sets it aside, and the next run computes it again from silver."
    if named is None:
        return CheckpointDamaged(f"{table} was computed from another {pipeline.silver_table} than the one that is there. {again}")
    if latest is None or named > latest:
        return CheckpointDamaged(f"{table} was computed from version {named} of {pipeline.silver_table}, which has {latest}. {again}")
    try:
        check_gold_in_force(settings, pipeline, table)
        refuse_changes_by_others(run, named, latest)
    except AssayError as fault:
        return fault
    return None
