"""What a person sees of a job that a command starts: its own lines, its sentence when it fails, all of it only when not foreseen."""

import pytest

from spark_jobs.cli.job_process import JobFailed, run_job


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Makes the next job a shell script, in the place of the interpreter."""

    def made(script):
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("ASSAY_PYTHON", str(path))

    return made


def test_its_own_lines_are_shown_and_sparks_are_not(job, capfd):
    job("""echo '26/11/21 06:00:00 WARN Utils: loopback' >&2; echo '06:00:01 silver: 3 read' >&2; echo '{"sentence": "Done."}'; echo bye""")
    assert run_job("audit", "cloudtrail") == {"sentence": "Done."}
    shown = capfd.readouterr().err
    assert "silver: 3 read" in shown and "loopback" not in shown
    run_job("audit", "cloudtrail", quietly=True)
    assert capfd.readouterr().err == ""


def test_a_foreseen_fault_is_its_sentence_and_its_exit_code(job, capfd):
    job("""echo 'java.lang.Noise' >&2; echo '{"error": "LeaseHeld", "sentence": "Somebody writes."}'; exit 3""")
    with pytest.raises(JobFailed, match=r"^Somebody writes\.$") as ended:
        run_job("maintain", "cloudtrail")
    assert ended.value.exit_code == 3 and ended.value.said["error"] == "LeaseHeld"
    assert "Noise" not in capfd.readouterr().err


def test_what_was_not_foreseen_is_shown_whole(job, capfd):
    job("echo 'Traceback: a defect' >&2; exit 1")
    with pytest.raises(JobFailed, match="exit code 1"):
        run_job("maintain", "cloudtrail")
    assert "Traceback: a defect" in capfd.readouterr().err


def test_a_killed_job_says_how_to_go_on_and_not_what_its_jvm_screamed(job, capfd):
    job("echo 'java.lang.NullPointerException' >&2; kill -9 $$")
    with pytest.raises(JobFailed, match=r"was killed \(SIGKILL\).*`assay backfill run bf_1`") as ended:
        run_job("backfill_chunk", "cloudtrail", again="assay backfill run bf_1")
    assert ended.value.exit_code == 137 and "NullPointer" not in capfd.readouterr().err
