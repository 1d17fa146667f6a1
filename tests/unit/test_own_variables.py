"""Variables by which our own processes speak to each other: none may be taken for a setting, or for a misspelt one."""

import re
from pathlib import Path

import pytest

from spark_jobs.spec.guarding import VARIABLE
from spark_jobs.spec.settings import Settings, load_settings

PROJECT = Path(__file__).parents[2]
OWN = ["ASSAY_TASK_EVENTS", "ASSAY_PYTHON", "ASSAY_PORT", "ASSAY_SCRATCH", VARIABLE]


@pytest.mark.parametrize("name", OWN)
def test_a_variable_of_ours_is_no_setting(monkeypatch, name):
    assert name.removeprefix("ASSAY_").lower() not in Settings.model_fields
    monkeypatch.setenv(name, "/a/file")
    load_settings()


def test_each_variable_that_the_code_names_in_quotes_is_a_setting_or_one_of_these():
    files = [file for folder in ("dags", "infra", "spark_jobs") for file in (PROJECT / folder).rglob("*.py")]
    named = {name for file in files for name in re.findall(r'"(ASSAY_[A-Z_]+)"', file.read_text())}
    settings = {f"ASSAY_{field.upper()}" for field in Settings.model_fields}
    assert named - settings == set(OWN)
