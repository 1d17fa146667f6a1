"""The alert look of a continuous driver: its rules are judged every minute while it runs. A fault of it is said, and disturbs nothing."""

from __future__ import annotations

import threading

from spark_jobs.jobs.ending import Ending
from spark_jobs.jobs.run import Run

EVERY_S = 60.0


class AlertLook(threading.Thread):
    """Calls `watch` until the driver ends."""

    def __init__(self, run: Run, ending: Ending) -> None:
        super().__init__(name=f"{run.pipeline.name}-alerts", daemon=True)
        self._run, self._ending, self._said = run, ending, ""

    def run(self) -> None:
        while not self._ending.wait(EVERY_S):
            try:
                from spark_jobs.jobs.watch import watch

                watch(self._run.settings, self._run.pipeline, self._run.clock(), run_id=self._run.run_id)
            except Exception as fault:  # alerts are about the data's way, and no part of it
                sentence = f"The alerts were not looked at: {type(fault).__name__}: {(str(fault).splitlines() or [''])[0]}"
                if sentence != self._said:
                    self._said = sentence
                    self._run.say(sentence)
