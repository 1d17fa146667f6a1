"""`python -m infra.setup <state folder>`: Java, then jars, then the class-data archive; each step does nothing when it is done."""

from __future__ import annotations

import sys
from pathlib import Path

from infra.setup.archive import ensure_archive
from infra.setup.jars import ensure_jars
from infra.setup.java import ensure_java
from spark_jobs.spec.errors import AssayError


def main(state: Path) -> int:
    try:
        java = ensure_java(state)
        ensure_jars(state, java)
        ensure_archive(state, java)
    except AssayError as fault:
        print(f"Set-up stopped: {fault}", file=sys.stderr)
        return fault.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
