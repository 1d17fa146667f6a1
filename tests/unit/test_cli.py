"""The `assay` command as a whole: quick to start, one sentence for a fault, and nothing in the data can steer the terminal."""

import json
import subprocess
import sys

import pytest

from spark_jobs.cli.terminal import inert, print_csv, print_json, print_table
from tests.builders.assay_command import assay
from tests.builders.ops_rows import SILVER, environment, record, small_settings, write

COMMANDS = ("status", "files", "books", "held", "where", "report", "query")


def test_importing_the_command_loads_no_heavy_library():
    code = "import sys, spark_jobs.cli.main; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    assert "typer" in loaded
    heavy = {"duckdb", "pyarrow", "deltalake", "pandas", "numpy", "pyspark", "jinja2", "fsspec", "airflow", "great_expectations"}
    assert not loaded & heavy


def test_asking_starts_no_jvm(tmp_path):
    code = "import sys; from spark_jobs.cli.main import app\ntry: app(['status'])\nexcept SystemExit: pass\nprint('pyspark' in sys.modules)"
    env = environment(small_settings(tmp_path)) | {"PATH": "/nonexistent"}  # no java to be found
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command, tmp_path):
    assert command in assay(small_settings(tmp_path), command, "--help").stdout


def test_an_empty_lake_is_said_and_not_an_error(tmp_path):
    settings = small_settings(tmp_path)
    assert "Nothing was written yet" in assay(settings, "status").stdout
    assert "ledger is empty" in assay(settings, "files").stdout
    assert "no books yet" in assay(settings, "books").stdout
    assert "No batch is held" in assay(settings, "held").stdout
    assert not (tmp_path / "lake").exists(), "asking made files"


def test_a_fault_is_one_sentence_on_standard_error_with_its_exit_code(tmp_path):
    result = assay(small_settings(tmp_path), "status", "--pipeline", "nosuch", exit_code=2)
    assert result.stdout == ""
    assert result.stderr == "There is no pipeline 'nosuch'. Known: cloudtrail.\n"


def test_a_damaged_lake_is_one_sentence(tmp_path):
    settings = small_settings(tmp_path)
    log = tmp_path / "lake" / "silver" / "cloudtrail_events" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("{bad")
    result = assay(settings, "status", exit_code=1)
    assert result.stderr.startswith("The lake cannot be read or written:")
    assert len(result.stderr.splitlines()) == 1


def test_a_wrong_setting_is_one_sentence(tmp_path):
    command = [sys.executable, "-m", "spark_jobs.cli.main", "status"]
    env = environment(small_settings(tmp_path)) | {"ASSAY_TRIGGER": "now and then"}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 2
    assert "ASSAY_TRIGGER='now and then'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_who_closes_the_pipe_early_sees_no_trace(tmp_path):
    settings = small_settings(tmp_path)
    write(settings, SILVER, *[record(settings, "a.gz", 0, _rid=f"{'a' * 32}:{index}", event_name="x" * 200) for index in range(3000)])
    query = f"{sys.executable} -m spark_jobs.cli.main query 'SELECT * FROM silver.cloudtrail_events' --limit 0 --csv | head -1"
    done = subprocess.run(["bash", "-c", query], capture_output=True, text=True, env=environment(settings) | {"PATH": "/usr/bin:/bin"})
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


HOSTILE = "[red]\x1b[31mred\x1b]0;title\x07\r\n\u202eevil\u200b[/red]"


def test_unseen_characters_are_written_out():
    shown = inert(HOSTILE)
    assert shown == "[red]\\x1b[31mred\\x1b]0;title\\x07\\r\\n\\u202eevil\\u200b[/red]"


def test_a_value_cannot_steer_the_terminal_or_use_markup(tmp_path, capsys):
    settings = small_settings(tmp_path)
    write(settings, SILVER, record(settings, "a.gz", 0, event_name=HOSTILE))
    for words in (
        ("query", "SELECT event_name FROM silver.cloudtrail_events"),
        ("query", "SELECT event_name FROM silver.cloudtrail_events", "--json"),
    ):
        printed = assay(settings, *words).stdout
        assert not any(char in printed for char in "\x1b\x07\r\u202e\u200b")
        assert "[red]" in printed, "markup was taken as markup"
    print_table([{"a": HOSTILE}], {"a": "[bold]a[/bold]"})
    assert "[bold]a[/bold]" in capsys.readouterr().out


def test_json_gives_the_exact_value_back(capsys):
    print_json({"a": HOSTILE})
    assert json.loads(capsys.readouterr().out) == {"a": HOSTILE}


def test_csv_is_exact_in_a_pipe_and_inert_on_a_terminal(capsys, monkeypatch):
    print_csv(["a"], [{"a": "x\x1by"}])
    assert capsys.readouterr().out == "a\nx\x1by\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    print_csv(["a"], [{"a": "x\x1by"}])
    assert capsys.readouterr().out == "a\nx\\x1by\n"


def test_an_audit_of_nothing_does_not_say_that_all_is_equal(tmp_path):
    said = assay(small_settings(tmp_path), "audit").stdout
    assert "shows nothing" in said and "equal" not in said
