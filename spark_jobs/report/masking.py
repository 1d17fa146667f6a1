"""Samples of bad records with their values masked: the form stays, so that a fault can be seen, the content does not."""

from __future__ import annotations

import re

LONGEST = 240  # characters of one sample

_FIELD_NAME = re.compile(r'"[A-Za-z_][A-Za-z0-9_.-]{0,63}"(?=\s*:)')


def mask_record(raw: str | bytes | None) -> str:
    """The beginning of a record: field names as they are, in every value each letter as `x` and each digit as `0`.

    Bytes that are no UTF-8 are shown as escapes (`\\xff`). Punctuation, length and case of the form are kept.
    """
    if raw is None:
        return ""
    text = raw.decode("utf-8", "backslashreplace") if isinstance(raw, bytes) else raw
    cut, masked, place = text[: LONGEST * 2], [], 0
    for name in _FIELD_NAME.finditer(cut):
        masked += [_mask(cut[place : name.start()]), name[0]]
        place = name.end()
    masked.append(_mask(cut[place:]))
    shown = "".join(masked)
    return shown[:LONGEST] + ("…" if len(text) > LONGEST else "")


def _mask(text: str) -> str:
    # An escape of an invalid byte says what is wrong with the record; it stays.
    return "".join(part if part.startswith("\\x") else "".join(map(_mask_character, part)) for part in re.split(r"(\\x[0-9a-f]{2})", text))


def _mask_character(char: str) -> str:
    if char.isdigit():
        return "0"
    return "x" if char.isalpha() else char
