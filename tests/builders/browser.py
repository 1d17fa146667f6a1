"""A real Chromium without a window, driven over its DevTools protocol: enough to fill in a form and to press buttons as a person does."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

PATIENCE_S = 60
PROGRAM = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
# React listens to the element's own setter, not to its attribute.
_SET = """(element, text) => {
  element.scrollIntoView(); element.focus();
  Object.getOwnPropertyDescriptor(Object.getPrototypeOf(element), 'value').set.call(element, text);
  for (const kind of ['input', 'change']) element.dispatchEvent(new Event(kind, {bubbles: true}));
}"""


class Browser:
    """One page. What is looked for is waited for."""

    def __init__(self, connection: Any, base: str) -> None:
        self._connection = connection
        self._base = base
        self._asked = 0

    def open(self, path: str) -> None:
        self._ask("Page.navigate", url=self._base + path)

    def text(self) -> str:
        """What the page and the frames inside it say."""
        inside = "[...document.querySelectorAll('iframe')].map(frame => frame.contentDocument?.body?.innerText ?? '').join(' ')"
        return str(self.run(f"document.body.innerText + ' ' + {inside}"))

    def wait_for(self, text: str) -> None:
        self._until(lambda: text in self.text(), f"the page never said '{text}'")

    def address(self) -> str:
        """Path and query of the page, decoded."""
        return unquote(str(self.run("location.pathname")))

    def wait_for_address(self, part: str) -> None:
        self._until(lambda: part in self.address(), f"the page never became {part}")

    def press(self, label: str) -> None:
        """Click the last visible button with this label: of a dialogue, not of the page behind it."""
        found = (
            f"[...document.querySelectorAll('button')].filter(one => one.innerText.trim() === {json.dumps(label)} && !one.disabled).at(-1)"
        )
        self._until(lambda: self.run(f"!!{found}"), f"there is no button '{label}'")
        self.run(f"{found}.click()")

    def fill(self, selector: str, text: str) -> None:
        found = f"document.querySelector({json.dumps(selector)})"
        self._until(lambda: self.run(f"!!{found}"), f"there is no field {selector}")
        self.run(f"({_SET})({found}, {json.dumps(text)})")

    def tick(self, selector: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def picture(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot", format="png")["data"]))

    def run(self, expression: str) -> Any:
        done = self._ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def _until(self, is_so: Any, otherwise: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(AssertionError):  # the page is just being replaced
                if is_so():
                    return
            assert time.monotonic() < deadline, f"{otherwise}; it says: {self.text()[:2000]}"
            time.sleep(0.5)

    def _ask(self, method: str, **parameters: Any) -> Any:
        self._asked += 1
        self._connection.send(json.dumps({"id": self._asked, "method": method, "params": parameters}))
        while True:
            told = json.loads(self._connection.recv(timeout=PATIENCE_S))
            if told.get("id") == self._asked:
                assert "error" not in told, told["error"]
                return told["result"]


@contextlib.contextmanager
def browser(base: str, profile: Path) -> Iterator[Browser]:
    """A browser with a profile of its own, on a site."""
    from websockets.sync.client import connect

    assert PROGRAM is not None
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={profile}", "--lang=en-GB"]
    process = subprocess.Popen(
        [PROGRAM, *options, "--window-size=1400,1250", "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        with connect(_page_address(profile), max_size=None) as connection:
            yield Browser(connection, base)
    finally:
        process.terminate()
        process.wait(timeout=30)


def _page_address(profile: Path) -> str:
    """Where the one page of the browser with this profile is driven: the browser writes its port there."""
    import urllib.request

    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, IndexError, StopIteration):
            port = (profile / "DevToolsActivePort").read_text().split()[0]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=5) as answer:
                return str(next(page for page in json.load(answer) if page["type"] == "page")["webSocketDebuggerUrl"])
        time.sleep(0.3)
    raise AssertionError("the browser did not start")
