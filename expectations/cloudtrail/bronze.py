"""The suite of `bronze.cloudtrail_records`: each record once, complete with its lineage, and no file half read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from expectations.custom.figures import ExpectFigureToAgree, ExpectFilesToBeWhole, ExpectRowsToAddUpTo
from expectations.custom.rows import ExpectColumnToBePresent, ExpectColumnToMatch, ExpectKeyToBeUnique, ExpectRowsToSatisfy
from expectations.gx import CRITICAL
from expectations.suite import Suite

LINEAGE = ("_rid", "_file_id", "_source_file", "_record_index", "_file_sha256", "_ingested_at", "_batch_id", "raw")

FACTS = (
    "books",  # spec.books.Books of this batch
    "files",  # {file id: {"records": found in the file, "quarantined": of them}} for each file read without a fault
    "files_read",  # int: files this batch was asked to read
    "outcomes",  # int: file outcomes recorded for it, counted on their own
)


# The value checks let a null through, which the first ones catch: a null is always one failure, never none.
def suite(subject: str, facts: Mapping[str, Any]) -> Suite:
    """The expectations for one batch of records; `facts` holds FACTS."""
    books = facts.get("books")
    kept = books.written + books.held if books is not None else None
    return Suite(
        name=f"bronze.cloudtrail_{subject}",
        facts=FACTS,
        expectations=(
            *[ExpectColumnToBePresent(columns=[name], severity=CRITICAL, description=f"every record has {name}") for name in LINEAGE],
            ExpectKeyToBeUnique(columns=["_rid"], severity=CRITICAL, description="no record id occurs twice"),
            ExpectColumnToMatch(
                columns=["_rid"],
                pattern="[0-9a-f]{32}:[0-9]+",
                nullable=True,
                severity=CRITICAL,
                description="_rid is <32 hex digits>:<index>",
            ),
            ExpectRowsToSatisfy(
                columns=["_rid", "_file_id", "_record_index"],
                condition="_rid is null or _file_id is null or _record_index is null or _rid = concat(_file_id, ':', _record_index)",
                severity=CRITICAL,
                description="_rid names the record's own file and index",
            ),
            ExpectColumnToMatch(
                columns=["_file_sha256"],
                pattern="[0-9a-f]{64}",
                nullable=True,
                severity=CRITICAL,
                description="_file_sha256 is 64 hex digits",
            ),
            ExpectRowsToSatisfy(
                columns=["raw"],
                # An element that is no object is a record too: silver's contract refuses it, row by row.
                condition="raw is null or trim(left(raw, 64)) != ''",
                severity=CRITICAL,
                description="raw is the text of a JSON value",
            ),
            ExpectFilesToBeWhole(
                files=facts.get("files"), severity=CRITICAL, description="each file's record indexes are dense, quarantined ones included"
            ),
            ExpectFigureToAgree(
                counted=facts.get("outcomes"),
                expected=facts.get("files_read"),
                severity=CRITICAL,
                description="every file that was read has an outcome",
            ),
            ExpectRowsToAddUpTo(
                columns=[], expression="count(1)", expected=kept, severity=CRITICAL, description="the rows are as many as the books say"
            ),
        ),
    )
