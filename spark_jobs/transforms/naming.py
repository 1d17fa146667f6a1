"""Names of columns."""

from __future__ import annotations

import re

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def to_snake_case(name: str) -> str:
    """`sourceIPAddress` to `source_ip_address`, `ARNPrefix` to `arn_prefix`."""
    return _WORD_START.sub("_", name).lower()
