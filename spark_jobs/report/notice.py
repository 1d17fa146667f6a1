"""From the states of incidents to one message: the subject says the worst, and no data value can become markup, a header or a link."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from spark_jobs.report.masking import mask_record
from spark_jobs.report.render import notice_page, visible
from spark_jobs.spec.incidents import SEVERITIES, Incident, worst
from spark_jobs.spec.moments import clock, words
from spark_jobs.spec.notices import Notice

LONGEST = 600  # characters of one sentence: a mail is read on a telephone
MOST_ITEMS = 50  # Slack takes 50 blocks in a message; the rest is counted
COLOURS = {"critical": "#b00020", "warning": "#a05a00", "info": "#2456a4", "recovered": "#1b7f3b"}
_QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")

Form = Literal["slack", "teams", "json"]


def compose(pipeline: str, incidents: Sequence[Incident], *, form: Form, lake: str = "") -> Notice:
    """One notice for all of them. An incident that fired and recovered since the last notice is given in its recovered state alone."""
    items = [_item(one) for one in sorted(incidents, key=_order)]
    subject = _subject(pipeline, sorted(incidents, key=_order))
    left_out = max(0, len(items) - MOST_ITEMS)
    foot = f"Lake: {visible(lake)}. What to do: infra/runbook/alerts.md; what fires now: assay alerts."
    if left_out:
        foot = f"{left_out:,} more are not shown. {foot}"
    items = items[:MOST_ITEMS]
    names = "|".join(sorted(f"{one.incident_id} {one.state}" for one in incidents))
    name = f"{pipeline}.{hashlib.sha256(names.encode()).hexdigest()[:24]}"
    plain = "\n".join([*(_plain(item) for item in items), foot, ""])
    page = notice_page(subject, [item | {"colour": COLOURS[item["kind"]]} for item in items], foot)
    return Notice(name, subject, plain, page, _PAYLOADS[form](pipeline, subject, items, foot))


def masked(text: str) -> str:
    """A text of another program's making in which each quoted value has its letters and digits replaced: the form stays."""
    return _QUOTED.sub(lambda quoted: quoted[0][0] + mask_record(quoted[0][1:-1]) + quoted[0][0], text)


def one_line(text: str) -> str:
    """The first line, of bounded length, without unseen characters."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return visible(first if len(first) <= LONGEST else first[: LONGEST - 1] + "…")


def _order(one: Incident) -> tuple[bool, int, datetime, str]:
    return (not one.is_open, SEVERITIES.index(one.severity), one.since, one.incident_id)


def _subject(pipeline: str, ordered: Sequence[Incident]) -> str:
    firing = [one for one in ordered if one.is_open]
    first, count = ordered[0], len(ordered) - 1
    word = worst(one.severity for one in firing).upper() if firing else "RECOVERED"
    more = f", and {count} more" if count else ""
    return one_line(f"[assay {pipeline}] {word}: {first.rule.replace('_', ' ')}, {first.subject}")[:180] + more


def _item(one: Incident) -> dict[str, str]:
    lasted = f"from {clock(one.since)} for {words(one.at - one.since)}"
    return {
        "kind": one.severity if one.is_open else "recovered", "word": one.severity.upper() if one.is_open else "RECOVERED",
        "rule": one.rule, "subject": one_line(one.subject), "sentence": one_line(one.sentence),
        "when": f"since {clock(one.since)}" if one.is_open else lasted, "incident_id": one.incident_id,
        "state": one.state, "severity": one.severity, "since": one.since.isoformat(), "at": one.at.isoformat(),
    }  # fmt: skip


def _plain(item: dict[str, str]) -> str:
    return f"{item['word']}  {item['sentence']}\n    {item['rule']}, {item['subject']}, {item['when']}, {item['incident_id']}\n"


def _slack(pipeline: str, subject: str, items: list[dict[str, str]], foot: str) -> dict[str, Any]:
    """Blocks of plain text: no mention, link or format in a value has a meaning. Source: api.slack.com/reference/block-kit/blocks."""

    def block(text: str) -> dict[str, Any]:
        return {"type": "section", "text": {"type": "plain_text", "text": text[:3000], "emoji": False}}

    escaped = subject.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # One block for all but the first items: with 50 of them and the foot there would be too many.
    return {"text": escaped, "blocks": [block(_plain(item).strip()) for item in items[: MOST_ITEMS - 1]] + [block(foot)]}


def _teams(pipeline: str, subject: str, items: list[dict[str, str]], foot: str) -> dict[str, Any]:
    """An adaptive card in a message. Its text is Markdown, so what has a meaning there is escaped. Source: adaptivecards.io, TextBlock."""

    def text(value: str, **how: object) -> dict[str, Any]:
        return {"type": "TextBlock", "text": re.sub(r"([\\`*_{}\[\]()#+!|<>~-])", r"\\\1", value), "wrap": True, **how}

    body = [text(subject, weight="Bolder")]
    for item in items:
        body += [text(f"{item['word']}: {item['sentence']}"), text(f"{item['rule']}, {item['subject']}, {item['when']}", isSubtle=True)]
    card = {
        "type": "AdaptiveCard",
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "version": "1.4",
        "body": [*body, text(foot, isSubtle=True)],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _json(pipeline: str, subject: str, items: list[dict[str, str]], foot: str) -> dict[str, Any]:
    keys = ("incident_id", "state", "severity", "rule", "subject", "sentence", "since", "at")
    return {"pipeline": pipeline, "subject": subject, "incidents": [{key: item[key] for key in keys} for item in items], "note": foot}


_PAYLOADS = {"slack": _slack, "teams": _teams, "json": _json}
