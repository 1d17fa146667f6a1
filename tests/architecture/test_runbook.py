"""The runbook's commands are those that exist: a page that tells a tired person to type what is refused is worse than none."""

import re
import shlex

import pytest
import typer

from spark_jobs.cli.main import app
from tests.builders.stack import PROJECT

RUNBOOK = sorted((PROJECT / "infra" / "runbook").glob("*.md"))
COMMAND = re.compile(r"(?:^\s*\$ |`)(assay [^`\n]*)", re.MULTILINE)


def commands(page):
    for text in COMMAND.findall(page.read_text(encoding="utf-8")):
        words = shlex.split(text.partition("#")[0].replace("<", "‹").replace(">", "›"))
        yield pytest.param(words[1:], id=f"{page.stem}: {text[:60]}")


@pytest.mark.parametrize("words", [case for page in RUNBOOK for case in commands(page) if case.values[0] != ["…"]])
def test_a_command_of_the_runbook_exists_with_its_options(words):
    command = typer.main.get_command(app)
    context = command.make_context("assay", [], resilient_parsing=True)
    while words and getattr(command, "commands", None) and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    assert not (words and not words[0].startswith("-") and getattr(command, "commands", None)), f"there is no command {words[0]}"
    known = {name for parameter in command.get_params(context) for name in parameter.opts}
    unknown = [word for word in words if word.startswith("-") and word not in known]
    assert not unknown, f"{command.name} has no option {', '.join(unknown)}"


def test_every_page_is_reached_from_the_first_one():
    first = (PROJECT / "infra" / "runbook" / "README.md").read_text(encoding="utf-8")
    assert {page.name for page in RUNBOOK} - {"README.md"} == set(re.findall(r"\(([\w-]+\.md)\)", first))
