"""`assay report`: write a run's quality report, or open the newest one."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_jobs.cli.options import AsJson, PipelineName, pipelines
from spark_jobs.cli.terminal import print_json, say
from spark_jobs.spec.errors import ConfigurationFault, UnknownName
from spark_jobs.spec.settings import load_settings


def report(
    pipeline: PipelineName = "",
    run_id: Annotated[str, typer.Option("--run-id", help="The run to report on, written anew from the tables.", show_default=False)] = "",
    latest: Annotated[bool, typer.Option("--latest", help="The newest run that did something (the default).")] = False,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a run's report as one HTML file that needs no network, with its JSON beside it."""
    from spark_jobs.jobs.run import utc_now
    from spark_jobs.report.facts import latest_run
    from spark_jobs.report.views import LakeViews
    from spark_jobs.report.write import write_report

    if run_id and latest:
        raise ConfigurationFault("--run-id and --latest exclude each other.")
    settings = load_settings()
    views = LakeViews(settings)
    declared = pipelines(pipeline)
    if not run_id:
        found = latest_run(views, [one.name for one in declared])
        if found is None:
            raise UnknownName("No run has done anything yet, so there is nothing to report. `make run` starts with the sample.")
        declared, run_id = [one for one in declared if one.name == found[0]], found[1]
    written = [done for one in declared if (done := write_report(settings, one, run_id, utc_now(), views)) is not None]
    if not written:
        raise UnknownName(f"No run '{run_id}' has done anything. `assay report` takes the newest run; `assay books` names the others.")
    for done in written:
        if as_json:
            print_json(
                {"run_id": run_id, "report": str(done.page), "json": str(done.page.with_name("report.json")), "sentence": done.sentence}
            )
        else:
            say(done.sentence)
            say(f"Report: {done.page}")
        if open_it:
            import webbrowser

            webbrowser.open(done.page.as_uri())
