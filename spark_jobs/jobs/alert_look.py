"""The alert look of a continuous driver: its rules are judged every minute while it runs. A fault of it is said, and disturbs nothing.

Now and then it also joins the small files of the tables that such a look reads.
"""

from __future__ import annotations

import threading

from spark_jobs.jobs.ending import Ending
from spark_jobs.jobs.run import Run

EVERY_S = 60.0
TIDY_EVERY = 15  # looks: at a trigger of ten seconds each table has a hundred files more by then


class AlertLook(threading.Thread):
    """Calls `watch` until the driver ends."""

    def __init__(self, run: Run, ending: Ending) -> None:
        super().__init__(name=f"{run.pipeline.name}-alerts", daemon=True)
        self._run, self._ending, self._said = run, ending, ""

    def run(self) -> None:
        looks = 0
        while not self._ending.wait(EVERY_S):
            looks += 1
            try:
                from spark_jobs.jobs.tidy_ops import tidy_ops
                from spark_jobs.jobs.watch import watch

                watch(self._run.settings, self._run.pipeline, self._run.clock(), run_id=self._run.run_id)
                if looks % TIDY_EVERY == 0:
                    tidy_ops(self._run)
            except Exception as fault:  # alerts are about the data's way, and no part of it
                sentence = f"The alerts were not looked at: {type(fault).__name__}: {(str(fault).splitlines() or [''])[0]}"
                if sentence != self._said:
                    self._said = sentence
                    self._run.say(sentence)
