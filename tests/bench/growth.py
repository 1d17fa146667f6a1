"""What one more hour costs on a lake with 1, 10 and 100 times the history, each kind of history grown alone.

rows: older days of events, at the same density. ledger: data files of the ledger, one for each look of an hour. versions: commits of
every table, each with its books, verdicts and file outcomes, as so many runs leave them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties

from spark_jobs.io import ledger
from spark_jobs.io.lake import lake_table
from spark_jobs.io.ops import CONFIGURATION, SCHEMAS, Ops
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import BOOKS, FILE_OUTCOMES, FILES, VERDICTS
from tests.bench.measure import Cost
from tests.bench.reference_set import LandedSet, hourly_files, reference_set
from tests.bench.stage import CACHE, Stage

FACTORS = (1, 10, 100)
LAST = 99  # the newest set is the same in every lake; what is grown lies before it
FILES_PER_SET = 20
OLD = date(2019, 1, 1)


class Growth:
    """Lakes grown in one way each; `hour(kind, factor)` measures a run of two new files on one of them."""

    def __init__(self) -> None:
        self._stage = Stage(CACHE / "growth")
        self._made: set[str] = set()
        self._grow: dict[str, Callable[[int], None]] = {"rows": self._rows, "ledger": self._ledger, "versions": self._versions}

    def hour(self, kind: str, factor: int) -> Cost:
        name = f"{kind}-{factor}" if factor > 1 else "one"
        if name not in self._made:
            self._stage.clear()
            self._grow[kind](factor)
            self._stage.keep(name)
            self._made.add(name)
        self._stage.back_to(name)
        return self._run(hourly_files(CACHE, LAST))

    def _rows(self, factor: int) -> None:
        self._run(*(reference_set(CACHE, number, files=FILES_PER_SET) for number in range(LAST + 1 - factor, LAST + 1)))

    def _ledger(self, factor: int) -> None:
        settings = self._stage.settings()
        DeltaTable.create(settings.location(FILES), SCHEMAS[FILES], configuration=CONFIGURATION)
        for number in range(FILES_PER_SET * (factor - 1)):
            ledger._commit(settings, lake_table(settings, FILES), [_ignored(number)])
        self._rows(1)

    def _versions(self, factor: int) -> None:
        self._rows(1)
        settings = self._stage.settings()
        for number in range(FILES_PER_SET * (factor - 1)):
            _one_more_version(settings, number)
        if factor > 1:
            self._run(hourly_files(CACHE, LAST - 1))  # so that the streams stand behind those versions

    def _run(self, *sets: LandedSet) -> Cost:
        self._stage.land(*sets)
        _, answer = self._stage.discover()
        return self._stage.submit("run_layers", java_options=answer["java_options"], gates=False)


def _ignored(number: int) -> dict[str, object]:
    day = OLD + timedelta(days=number // 24)
    at = datetime(2019, 1, 1, tzinfo=UTC) + timedelta(hours=number)
    return {
        "pipeline": "cloudtrail", "path": f"/old/{day:%Y/%m/%d}/{number}.txt",
        "size": 1, "version": str(number), "file_id": f"{number:032x}",
        "modified_at": at, "prefix_date": day, "attempt": 1, "state": "ignored", "reason": "not a log", "admitted": "live",
        "listed_at": at, "run_id": "bench",
    }  # fmt: skip


def _one_more_version(settings: Settings, number: int) -> None:
    pipeline, ops = load_pipeline("cloudtrail"), Ops(settings)
    at = datetime(2019, 1, 1, tzinfo=UTC) + timedelta(hours=number)
    for table in pipeline.all_tables:
        found = lake_table(settings, table)
        if found is None:
            continue
        note = {"batch_id": f"old-{number:08d}", "epoch": 0}
        found.create_write_transaction(
            [], mode="append", schema=found.schema(),
            commit_properties=CommitProperties(custom_metadata={"userMetadata": json.dumps(note)}),
            post_commithook_properties=PostCommitHookProperties(create_checkpoint=True),  # as Spark does on every tenth
        )  # fmt: skip
        books = {
            "pipeline": pipeline.name, "layer": table.layer, "table": str(table), "batch_id": note["batch_id"], "run_id": f"old-{number}",
            "read": 0, "written": 0, "is_balanced": True, "started_at": at, "finished_at": at,
        }  # fmt: skip
        ops.append(BOOKS, [books])
        verdict = {"table": str(table), "batch_id": note["batch_id"], "run_id": f"old-{number}", "outcome": "pass", "evaluated_at": at}
        ops.append(VERDICTS, [verdict | {"pipeline": pipeline.name, "layer": table.layer}])
    outcome = {"pipeline": pipeline.name, "file_id": f"{number:032x}", "attempt": 1, "outcome": "ok", "batch_id": f"old-{number:08d}"}
    ops.append(FILE_OUTCOMES, [outcome | {"read_at": at, "records": 0, "run_id": f"old-{number}"}])
