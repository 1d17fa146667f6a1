"""The jars are those of the list; the class-data archive is rebuilt when, and only when, something it depends on changes."""

import os
from pathlib import Path

import pytest

from infra.setup.archive import archive_key, ensure_archive, spark_home
from infra.setup.jars import ensure_jars, wanted_jars
from infra.setup.java import Java
from spark_jobs.io.java_options import LARGE, SMALL, archive_options, is_archive_mapped
from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.settings import load_settings

PROJECT = Path(__file__).parents[2]
STATE = load_settings().home.absolute()
NO_JAVA = Java(Path("/nowhere"), "17 none")


def test_the_installed_jars_are_those_of_the_list():
    assert sorted(jar.name for jar in (STATE / "jars").glob("*.jar")) == wanted_jars()


def test_jars_that_are_there_are_not_fetched_and_those_no_longer_listed_are_removed(tmp_path):
    folder = tmp_path / "jars"
    folder.mkdir()
    for name in [*wanted_jars(), "left-over-1.0.jar"]:
        (folder / name).touch()
    ensure_jars(tmp_path, NO_JAVA)  # it would fail to start if it were asked to fetch
    assert sorted(jar.name for jar in folder.iterdir()) == wanted_jars()


def test_a_registry_out_of_reach_is_one_sentence_with_the_missing_jars(tmp_path, program):
    java = Java(program("java/bin/java", "echo 'no route to host'; exit 1").parent.parent, "17 broken")
    with pytest.raises(ConfigurationFault, match=r"7 jars could not be fetched .*delta-spark.*check the network"):
        ensure_jars(tmp_path, java)
    assert "no route to host" in (tmp_path / "ivy.log").read_text()


@pytest.fixture
def parts(tmp_path):
    """What an archive's key is made of: a Java, a folder of jars, a training job."""
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "a.jar").write_text("a")
    job = tmp_path / "job.py"
    job.write_text("train()")
    return Java(tmp_path, "17.0.1"), jars, job


def test_the_archive_key_changes_with_java_jars_and_training_job(parts):
    java, jars, job = parts
    seen = [archive_key(java, [jars], job)]
    assert archive_key(java, [jars], job) == seen[0]
    seen.append(archive_key(Java(java.home, "17.0.2"), [jars], job))
    os.utime(jars / "a.jar", (1, 1))
    seen.append(archive_key(java, [jars], job))
    (jars / "b.jar").touch()
    seen.append(archive_key(java, [jars], job))
    job.write_text("train(more)")
    seen.append(archive_key(java, [jars], job))
    assert len(set(seen)) == len(seen)


@pytest.fixture
def built(tmp_path, parts):
    """A state folder with an archive that fits; its Java cannot start, so any attempt to build fails and is said."""
    java, jars, job = parts
    (tmp_path / "java").mkdir()
    for name in ("driver.jsa", "class_path"):
        (tmp_path / "java" / name).touch()
    (tmp_path / "java" / "driver.key").write_text(archive_key(java, [jars, spark_home() / "jars"], job))
    return tmp_path, java, job


def test_an_archive_that_fits_is_kept(built, capsys):
    state, java, job = built
    ensure_archive(state, java, (str(job),))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("missing", ["driver.jsa", "driver.key", "class_path"])
def test_an_archive_that_is_not_whole_is_built_again_and_a_failure_stops_nothing(built, capsys, missing):
    state, java, job = built
    (state / "java" / missing).unlink()
    ensure_archive(state, java, (str(job),))
    said = capsys.readouterr().err
    assert "building the class-data archive" in said
    assert "could not be built" in said and "archive.log" in said
    assert (state / "java" / "archive.log").read_text()


def test_the_real_archive_is_mapped_by_the_jvm_and_another_class_path_is_noticed(tmp_path):
    settings = load_settings()
    assert is_archive_mapped(settings)
    (tmp_path / "java").mkdir()
    for name in ("bin", "driver.jsa"):
        (tmp_path / "java" / name).symlink_to(settings.home.absolute() / "java" / name)
    own = (settings.home / "java" / "class_path").read_text()
    (tmp_path / "java" / "class_path").write_text(own)
    assert is_archive_mapped(load_settings(home=tmp_path))
    (tmp_path / "java" / "class_path").write_text(own.split(":", 1)[1])
    assert not is_archive_mapped(load_settings(home=tmp_path))


def test_the_options_fit_the_input_with_and_without_an_archive(tmp_path):
    settings = load_settings(home=tmp_path)
    assert archive_options(settings, small=True) == SMALL
    (tmp_path / "java").mkdir()
    (tmp_path / "java" / "driver.jsa").touch()
    options = archive_options(settings, small=False)
    assert options == f"-XX:SharedArchiveFile={tmp_path}/java/driver.jsa -Xshare:auto {LARGE}"
