"""Where, behind damage, the next record seems to begin: records of one source begin with the same key."""

from __future__ import annotations

import re
from collections import Counter

from spark_jobs.io.json_extents import STRING_PATTERN, Text

_FIRST_KEY = re.compile(rb"\{[ \t\n\r]*(" + STRING_PATTERN + rb")[ \t\n\r]*:", re.DOTALL)
_LIKELY_RECORD = re.compile(rb"\}[ \t\n\r]*,[ \t\n\r]*(?=\{)")
_WINDOW = 1 << 20  # bytes looked at to find out with which key records begin, when no whole record came before the damage


class RecordStarts:
    """Learns the key from the first record; then `next_from` is asked with growing positions, so that the document is searched once."""

    def __init__(self, document: Text) -> None:
        self._document = document
        self._key: bytes | None = None
        self._pattern: re.Pattern[bytes] | None = None
        self._guessed_until = 0
        self._found = -1  # the last answer; it holds until a position behind it is asked for
        self._asked = -1

    def learn(self, start: int) -> None:
        """An array element begins at `start`; if it is an object with a readable first key, that is the key."""
        if self._key is None:
            self._remember(_first_key(self._document, start))

    def is_at(self, position: int) -> bool:
        return self._key is not None and _first_key(self._document, position) == self._key

    def next_from(self, position: int) -> int | None:
        """The beginning of the next object that starts like a record and lies where an array element may, from `position` on."""
        if self._pattern is None:
            self._guess(position)
            if self._pattern is None:
                return None
        if not self._asked <= position <= self._found:
            found = self._pattern.search(self._document, position)
            self._asked, self._found = position, found.start(1) if found else len(self._document)
        return self._found if self._found < len(self._document) else None

    def _guess(self, position: int) -> None:
        """The first key that most of the next objects have; asked again only when a whole new window lies ahead."""
        if position < self._guessed_until:
            return
        self._guessed_until = position + _WINDOW
        likely = _LIKELY_RECORD.finditer(self._document, position, position + _WINDOW)
        keys = Counter(key for found in likely if (key := _first_key(self._document, found.end())))
        if keys:
            self._remember(keys.most_common(1)[0][0])

    def _remember(self, key: bytes | None) -> None:
        if key is not None:
            self._key = key
            self._pattern = re.compile(rb"[,}\]][ \t\n\r]*(?=(\{[ \t\n\r]*" + re.escape(key) + rb"[ \t\n\r]*:))")


def _first_key(document: Text, start: int) -> bytes | None:
    """The first key, quotes included, of an object that begins at `start`."""
    found = _FIRST_KEY.match(document, start)
    return found.group(1) if found else None
