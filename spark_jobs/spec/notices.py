"""A notice: what is told about incidents at one look, ready to be sent. Made by report/notice.py, sent by io/channels.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Channel = Literal["mail", "webhook"]


@dataclass(frozen=True, slots=True)
class Notice:
    """`name` is the same whenever the same states are told, so that a receiver can tell a second delivery from a second incident.

    `payload` is the body for the webhook, in the form it was made for.
    """

    name: str
    subject: str
    plain: str
    html: str
    payload: Mapping[str, Any]
