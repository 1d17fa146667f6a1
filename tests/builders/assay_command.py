"""The `assay` command, run on the lake of given settings."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from spark_jobs.cli.main import app
from spark_jobs.spec.settings import Settings
from tests.builders.ops_rows import environment


def assay(settings: Settings, *words: str, exit_code: int = 0, stdin: str | None = None) -> Result:
    """Run the command and check how it ended; `stdout` and `stderr` of the result are what was printed."""
    result = CliRunner().invoke(app, list(words), env=environment(settings), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == exit_code, result.stdout + result.stderr
    return result


def assay_json(settings: Settings, *words: str, exit_code: int = 0) -> Any:
    """What the command prints with --json, read back."""
    return json.loads(assay(settings, *words, "--json", exit_code=exit_code).stdout)
