"""The fingerprint of a quarantined record: table, rule, and the shape of its reason, so that one cause is one group."""

from __future__ import annotations

import hashlib
import re

# What differs between two records of one cause, in the order in which it is taken out. Read alike by Python and by DuckDB (RE2).
_VARYING = (
    (r"'[^']*'|\"[^\"]*\"", "‹value›"),
    (r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?", "‹time›"),
    (r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-f]{16,}|[\\]u[0-9a-fA-F]{4}", "‹id›"),
    (r"[0-9]+([.,][0-9]+)*", "‹n›"),
)
DIGITS = 12  # of the hash: a lake has tens of groups, and a person types them


def shape(reason: str) -> str:
    """A reason without what differs from record to record: `byte 17 of 'a'` becomes `byte ‹n› of ‹value›`."""
    for pattern, instead in _VARYING:
        reason = re.sub(pattern, instead, reason)
    return reason


def shape_sql(column: str) -> str:
    """The same as a DuckDB expression over a column of reasons."""
    expression = f"coalesce({column}, '')"
    for pattern, instead in _VARYING:
        literal = pattern.replace("'", "''")
        expression = f"regexp_replace({expression}, '{literal}', '{instead}', 'g')"
    return expression


def fingerprint(table: object, rule: str, shape: str) -> str:
    """A short hash (hex) of what a group is."""
    return hashlib.sha256(f"{table}|{rule}|{shape}".encode()).hexdigest()[:DIGITS]
