"""Where alerts go: a mail server and a webhook. Each sending has a time limit and is tried again where that can help.

Neither the password nor the webhook's address is in any text that leaves this module.
"""

from __future__ import annotations

import json
import smtplib
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any
from urllib.parse import urlsplit

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from spark_jobs.spec.errors import AssayError
from spark_jobs.spec.notices import Channel, Notice
from spark_jobs.spec.settings import Settings

TIMEOUT_S = 10  # a server that does not answer for so long is asked again at the next look
TRIES = 3  # within a look: a dropped connection, a server that is busy for a second


class Undelivered(AssayError):
    """A notice could not be delivered; it is kept and sent at the next look."""


class _TryAgain(Exception):
    """A fault that may be over in a second."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A webhook that sends us elsewhere is not the one that was configured."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def channels(settings: Settings) -> Mapping[Channel, Callable[[Notice], str]]:
    """What is configured: a function per channel that sends a notice and says where it went. It raises Undelivered."""
    found: dict[Channel, Callable[[Notice], str]] = {}
    if settings.smtp_host and settings.alert_to.strip():
        found["mail"] = lambda notice: send_mail(settings, notice)
    if settings.alert_webhook.get_secret_value():
        found["webhook"] = lambda notice: post(settings, notice)
    return found


def mail_of(settings: Settings, notice: Notice) -> EmailMessage:
    """Plain text with an HTML form beside it. Whatever the data says, a header is one line: what is not, the library refuses."""
    message = EmailMessage()
    message["From"], message["Subject"] = settings.alert_from, notice.subject
    message["To"] = ", ".join(address.strip() for address in settings.alert_to.split(",") if address.strip())
    message["Date"], message["Message-ID"] = formatdate(), f"<{notice.name}@assay>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office answers
    message.set_content(notice.plain)
    message.add_alternative(notice.html, subtype="html")
    return message


def send_mail(settings: Settings, notice: Notice) -> str:
    """Hand the notice to the mail server. Raises Undelivered."""
    where = f"the mail server {settings.smtp_host}:{settings.smtp_port}"

    def once() -> str:
        try:
            refused = _hand_over(settings, mail_of(settings, notice))
        except (smtplib.SMTPAuthenticationError, smtplib.SMTPRecipientsRefused, smtplib.SMTPSenderRefused, smtplib.SMTPNotSupportedError):
            raise
        except smtplib.SMTPResponseException as fault:
            if 400 <= fault.smtp_code < 500:  # RFC 5321: a transient failure
                raise _TryAgain(fault) from None
            raise
        except (OSError, smtplib.SMTPException) as fault:
            raise _TryAgain(fault) from None
        left_out = f", which refused {', '.join(refused)}" if refused else ""
        return f"{settings.alert_to} by {where}{left_out}"

    return _insisting(settings, where, once)


def _hand_over(settings: Settings, message: EmailMessage) -> list[str]:
    """Returns the receivers that were refused when others were not."""
    secure = ssl.create_default_context()
    is_tls = settings.smtp_port == 465
    connect: Any = smtplib.SMTP_SSL if is_tls else smtplib.SMTP
    options = {"context": secure} if is_tls else {}
    with connect(settings.smtp_host, settings.smtp_port, timeout=TIMEOUT_S, **options) as server:
        if settings.smtp_starttls and not is_tls:
            server.starttls(context=secure)
        if settings.smtp_user:
            server.login(settings.smtp_user, _password(settings))
        return sorted(server.send_message(message))


def _password(settings: Settings) -> str:
    if settings.smtp_password_file is not None:
        return settings.smtp_password_file.read_text(encoding="utf-8").strip()
    return settings.smtp_password.get_secret_value()


def post(settings: Settings, notice: Notice) -> str:
    """Post the notice to the webhook. Raises Undelivered."""
    url = settings.alert_webhook.get_secret_value()
    where = f"the webhook at {urlsplit(url).hostname}"
    body = json.dumps(notice.payload, ensure_ascii=False).encode()
    headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "assay", "X-Assay-Notice": notice.name}
    opener = urllib.request.build_opener(_NoRedirects)

    def once() -> str:
        request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310  # settings allow http and https alone
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                return f"{where} ({answer.status})"
        except urllib.error.HTTPError as fault:
            fault.close()
            if fault.code == 429 or fault.code >= 500:
                raise _TryAgain(fault) from None
            raise
        except OSError as fault:
            raise _TryAgain(fault) from None

    return _insisting(settings, where, once)


def _insisting(settings: Settings, where: str, once: Callable[[], str]) -> str:
    try:
        for attempt in Retrying(
            retry=retry_if_exception_type(_TryAgain), stop=stop_after_attempt(TRIES), wait=wait_exponential(0.5, max=4), reraise=True
        ):
            with attempt:
                return once()
    except Exception as fault:  # whatever a server makes of it: the notice is kept, and the look goes on
        cause = fault.args[0] if isinstance(fault, _TryAgain) else fault
        raise Undelivered(f"{where} did not take it: {_without_secrets(settings, cause)}. It is sent again at the next look.") from None
    raise AssertionError("unreachable: the last try raises")


def _without_secrets(settings: Settings, fault: object) -> str:
    if isinstance(fault, urllib.error.HTTPError):
        return f"it answered {fault.code}"
    text = f"{type(fault).__name__}: {fault}"
    url = settings.alert_webhook.get_secret_value()
    secrets = [settings.smtp_password.get_secret_value(), url, urlsplit(url).path.strip("/"), urlsplit(url).query]
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "…")
    return " ".join(text.split())[:300].rstrip(".")
