"""An HTML page taken apart: its elements, attributes and visible text."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """`tags` that occur, `attributes` as (tag, name, value), and `text` outside of the style sheet."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.banner = ""
        self._texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._open.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        css = dict(attrs).get("class") or ""
        if css.startswith("banner"):
            self.banner = css.removeprefix("banner").strip()

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self._texts.append(data)
