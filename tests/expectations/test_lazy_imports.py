"""Great Expectations is imported the short way, and what was left out still works when it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_gate_module_does_not_import_great_expectations_or_spark() -> None:
    assert run("import sys, expectations.gate; print('great_expectations' in sys.modules, 'pyspark' in sys.modules)") == "False False"


def test_leaves_out_what_no_gate_uses() -> None:
    heavy = "('sqlalchemy', 'botocore', 'pyspark.ml', 'pyspark.sql.connect', 'scipy.stats._stats_py', 'altair.vegalite')"
    assert run(f"import sys, expectations.validation; print([name for name in {heavy} if name in sys.modules])") == "[]"


@pytest.mark.parametrize(
    "use",
    [
        "from scipy import stats; print(stats.norm.cdf(0))",
        "import scipy.stats; print(scipy.stats.norm.cdf(0))",
        "import scipy.stats.distributions as d; print(d.norm.cdf(0))",
        "import importlib.util, pyspark.testing; print(0.5 if importlib.util.find_spec('scipy') else '')",
        "import altair; print(0.5 if altair.Chart else '')",
        "import sqlalchemy; print(0.5 if sqlalchemy.text('1') is not None else '')",
        "import great_expectations.expectations.core.expect_column_kl_divergence_to_be_less_than as e; print(e.stats.norm.cdf(0))",
    ],
)
def test_what_was_left_out_works_when_it_is_used(use: str) -> None:
    assert run(f"import expectations.gx; {use}") == "0.5"


def test_other_threads_import_everything_meanwhile() -> None:
    code = """
import threading
from expectations.lazy_imports import short_imports
with short_imports():
    found = []
    def other():
        import sqlalchemy
        found.append(sqlalchemy.__name__)
    thread = threading.Thread(target=other); thread.start(); thread.join()
    try:
        import botocore
        found.append('here too')
    except ModuleNotFoundError:
        found.append('not here')
import botocore
print(*found)
"""
    assert run(code) == "sqlalchemy not here"


def test_warm_up_imports_beside_the_caller() -> None:
    code = "import sys; from expectations.gate import warm_up; warm_up().join(); print('expectations.validation' in sys.modules)"
    assert run(code) == "True"
