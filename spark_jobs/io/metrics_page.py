"""The figures where Prometheus reads them: a page on 127.0.0.1 of a long run, a text file of a short one."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from prometheus_client import start_http_server, write_to_textfile

from spark_jobs.io.metrics_figures import Figures

TRY_AGAIN_S = 5.0  # the driver before this one may still have the port


class MetricsPage:
    """`http://127.0.0.1:<port>/metrics`, from the first call of `send` or `open` on, until `close`."""

    complaint = "Prometheus is not served"

    def __init__(self, port: int, say: Callable[[str], None]) -> None:
        self._port, self._say = port, say
        self._figures = Figures()
        self._closing = threading.Event()
        self._server: Any = None
        self._opener = threading.Thread(target=self._open, name="metrics-page", daemon=True)
        self._opener.start()

    def send(self, kind: str, event: Mapping[str, Any]) -> None:
        self._figures.take(kind, event)

    def close(self) -> None:
        self._closing.set()
        self._opener.join(TRY_AGAIN_S)
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _open(self) -> None:
        said = False
        while not self._closing.is_set():
            try:
                self._server, _ = start_http_server(self._port, addr="127.0.0.1", registry=self._figures.registry)
                return
            except OSError as fault:
                if not said:
                    self._say(f"{self.complaint} yet: port {self._port} on 127.0.0.1 cannot be had ({fault.strerror}); it is tried again.")
                said = True
                self._closing.wait(TRY_AGAIN_S)


class MetricsFile:
    """A file for node exporter's textfile collector, replaced as a whole. Jobs that follow each other go on from what it says."""

    complaint = "Figures for Prometheus cannot be written"

    def __init__(self, place: Path) -> None:
        self._place = place.absolute()
        self._events: list[tuple[str, Mapping[str, Any]]] = []

    def send(self, kind: str, event: Mapping[str, Any]) -> None:
        self._events.append((kind, event))
        if kind == "progress" or len(self._events) > 1000:
            self._write()

    def close(self) -> None:
        self._write()

    def _write(self) -> None:
        events, self._events = self._events, []
        if not events:
            return
        self._place.parent.mkdir(parents=True, exist_ok=True)
        figures = Figures()
        with self._place.with_name(f".{self._place.name}.lock").open("w") as lock:  # jobs of one lake may write at once
            fcntl.flock(lock, fcntl.LOCK_EX)
            with suppress(FileNotFoundError, ValueError):  # not there yet, or no longer figures: begun anew
                figures.load(self._place.read_text())
            for kind, event in events:
                figures.take(kind, event)
            write_to_textfile(str(self._place), figures.registry)
