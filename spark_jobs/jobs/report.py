"""Report: the quality report of one run, written whatever became of it. Starts no JVM."""

from __future__ import annotations

from typing import Any

from spark_jobs.jobs.run import Run, leave, run_job


def _work(run: Run, options: object) -> dict[str, Any]:
    """Write the run's report; a run with nothing new writes nothing."""
    from spark_jobs.report.quarantine_groups import growing_groups, growing_sentence
    from spark_jobs.report.views import LakeViews
    from spark_jobs.report.write import write_report

    done = write_report(run.settings, run.pipeline, run.run_id, run.clock())
    if done is None:
        sentence = "Nothing new in this run, so no report is written."
        run.say(sentence)
        return {"report": None, "sentence": sentence}
    run.say(f"{done.sentence} Report: {done.page}")
    growing = growing_sentence(growing_groups(LakeViews(run.settings), run.clock(), run.pipeline.name))
    if growing:
        run.say(growing)
    return {"report": str(done.page), "sentence": f"{done.sentence} {growing}".strip(), "growing": growing or None}


if __name__ == "__main__":
    leave(run_job("report", _work))
