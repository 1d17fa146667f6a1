"""Who is told of alerts: a real mail server and a real web server on this machine, which keep what they get."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult


class Mailbox:
    """The handler of the mail server. `refuse` is the answer to the next messages instead of taking them."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.receivers: list[str] = []
        self.refuse: list[str] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.refuse:
            return self.refuse.pop(0)
        self.mails.append(message_from_bytes(envelope.content, policy=policy.default))
        self.receivers += envelope.rcpt_tos
        return "250 OK"

    def take(self) -> list[EmailMessage]:
        """What has come since the last time."""
        came, self.mails = self.mails, []
        return came


@contextmanager
def mail_server(mailbox: Mailbox, *, port: int = 0, password: str = "", **how: Any) -> Iterator[int]:
    """Its port. With a password it takes mail only from user `assay` with it."""

    def check(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        return AuthResult(success=(data.login, data.password) == (b"assay", password.encode()), handled=False)

    if password:
        how |= {"authenticator": check, "auth_required": True, "auth_require_tls": "tls_context" in how}
    controller = Controller(mailbox, hostname="127.0.0.1", port=port or free_port(), **how)
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()


@contextmanager
def web_server(posts: list[dict[str, Any]], answers: list[int] | None = None) -> Iterator[str]:
    """Its address. Bodies are appended to `posts` where it answers 200; `answers` are the codes of the next answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            code = answers.pop(0) if answers else 200
            if code == 200:
                posts.append(json.loads(body))
            self.send_response(code)
            if code == 302:
                self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
