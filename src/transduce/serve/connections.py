"""Connections within bounds: how many, how large and how slow their headers, how long an answer unread.

A subclass of uvicorn's protocol on h11, which bounds headers' size but not their time.
Does not know: requests, the application.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from transduce.serve.problems import Problem, problem_body
from transduce.serve.security import with_security_headers
from transduce.serve.settings import ServeSettings

if TYPE_CHECKING:
    from asyncio import TimerHandle, Transport

__all__ = ["protocol_for"]

_LINGER = 1.0  # seconds
_STATUS_LINES = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large"}


def protocol_for(settings: ServeSettings) -> type[H11Protocol]:
    """The protocol class for uvicorn, with these settings' limits."""
    return type("BoundedProtocol", (_Bounded,), {"settings": settings})


class _Bounded(H11Protocol):
    settings: ClassVar[ServeSettings]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._header_timer: TimerHandle | None = None
        self._unread_timer: TimerHandle | None = None
        self._refused = False

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        most = self.settings.max_connections
        if len(self.connections) > most:
            detail = (
                f"{most} connections are open, the most that are allowed here: try again in a few seconds"
            )
            extra, headers = {"max_connections": most}, {"Retry-After": "2"}
            self._refuse(Problem(503, "Too many connections", detail, "too-many-connections", extra, headers))
            return
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        # h11 bounds only what is incomplete: headers that came whole in one large read would pass.
        while data and not self._refused and not self.transport.is_closing():
            part, data = data, b""
            if self.conn.their_state is h11.IDLE:
                self._expect_headers()
                room = self.settings.max_header_bytes + 1 - len(self.conn.trailing_data[0])
                part, data = part[:room], part[room:]
            super().data_received(part)
            if self.conn.their_state is not h11.IDLE:
                self._stop_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_header_timer()
        self._stop_unread_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client leaves its answer unread; for a while it may."""
        super().pause_writing()
        if self._unread_timer is None:
            self._unread_timer = self.loop.call_later(self.settings.send_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again."""
        self._stop_unread_timer()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 -- uvicorn calls it so
        """Answer what is no HTTP, or has too large headers, with a problem too."""
        error = sys.exc_info()[1]
        if getattr(error, "error_status_hint", 400) == 431:
            most = self.settings.max_header_bytes
            detail = f"the headers are larger than the {most} bytes that are allowed here: send fewer"
            extra = {"max_header_bytes": most}
            self._refuse(Problem(431, "The headers are too large", detail, "headers-too-large", extra))
        else:
            self._refuse(Problem(400, "Not HTTP", f"the request is no HTTP/1.1 that can be read ({error})"))

    def _expect_headers(self) -> None:
        if self._header_timer is None:
            self._header_timer = self.loop.call_later(self.settings.header_seconds, self._too_slow)

    def _too_slow(self) -> None:
        self._header_timer = None
        seconds = self.settings.header_seconds
        detail = f"the headers did not arrive within {seconds:g} s: send them faster"
        self._refuse(
            Problem(408, "The headers came too slowly", detail, "too-slow", {"header_seconds": seconds})
        )

    def _refuse(self, problem: Problem) -> None:
        """Answer without the application, and close."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        body = json.dumps(problem_body(problem)).encode()
        phrase = _STATUS_LINES.get(problem.status, b"Service Unavailable")
        headers = {
            "Content-Type": "application/problem+json",
            "Content-Length": str(len(body)),
            "Connection": "close",
            **problem.headers,
        }
        sent = with_security_headers((name.encode(), value.encode()) for name, value in headers.items())
        head = b"".join(name + b": " + value + b"\r\n" for name, value in sent)
        self.transport.write(b"HTTP/1.1 %d %s\r\n%s\r\n%s" % (problem.status, phrase, head, body))
        self.connections.discard(self)
        # Closed at once, with something of the client's unread, the connection would be reset, and the
        # answer be lost. So what still comes is dropped for a moment.
        self.transport.write_eof()
        self.loop.call_later(_LINGER, self.transport.abort)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_unread_timer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None
