"""Fetches the jars of infra/jars/ivy.xml with the Apache Ivy that pyspark ships, checksums verified, into `<state>/jars`."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import xml.etree.ElementTree as Xml
from pathlib import Path

from infra.setup.java import Java
from spark_jobs.spec.errors import ConfigurationFault

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "infra" / "jars" / "ivy.xml"
SETTINGS = ROOT / "infra" / "jars" / "ivysettings.xml"


def wanted_jars(ivy_xml: Path = LIST) -> list[str]:
    """File names of all jars in the list."""
    dependencies = Xml.parse(ivy_xml).getroot().iter("dependency")  # noqa: S314  # our own file
    return sorted(f"{found.attrib['name']}-{found.attrib['rev']}.jar" for found in dependencies)


def ensure_jars(state: Path, java: Java) -> None:
    """The Delta jars in `<state>/jars`; see `fetch_jars`."""
    fetch_jars(LIST, "delta", state / "jars", state, java)


def fetch_jars(ivy_xml: Path, profile: str, folder: Path, state: Path, java: Java) -> None:
    """Fetch what is missing of a list and remove what is no longer in it; raises ConfigurationFault when the registry cannot be reached."""
    wanted = set(wanted_jars(ivy_xml))
    present = {jar.name for jar in folder.glob("*.jar")}
    for stale in present - wanted:
        (folder / stale).unlink()
    if wanted <= present:
        return
    print(f"Set-up: fetching the {profile.capitalize()} jars …", file=sys.stderr)
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigurationFault("pyspark is not installed in the environment; run the set-up again.")
    ivy = next((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    command = [str(java.binary), f"-Divy.default.ivy.user.dir={state / 'ivy'}", "-jar", str(ivy), "-settings", str(SETTINGS)]
    command += ["-ivy", str(ivy_xml), "-confs", profile, "-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
    fetched = subprocess.run(command, capture_output=True, text=True)
    missing = wanted - {jar.name for jar in folder.glob("*.jar")}
    if fetched.returncode or missing:
        log = state / "ivy.log"
        log.write_text(fetched.stdout + fetched.stderr)
        raise ConfigurationFault(
            f"{len(missing)} jars could not be fetched from the Java registry ({', '.join(sorted(missing))}); "
            f"check the network and try again. Ivy's own words are in {log}."
        )
