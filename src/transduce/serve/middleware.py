"""Around every request: its id, its body within bounds, its place in log and metrics, no error unanswered.

Does not know: what routes do. Bodies are read before a route is called, so that what a slow or endless
body costs is decided in one place.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce.serve.logs import request_id
from transduce.serve.metrics import Metrics
from transduce.serve.problems import Problem, ProblemResponse, unexpected
from transduce.serve.settings import ServeSettings

__all__ = ["Around"]

_access = logging.getLogger("transduce.access")
_log = logging.getLogger(__name__)

_SANE_ID = re.compile(rb"[A-Za-z0-9._\-]{1,64}")
_TRANSLATE = "/api/v1/translate"
_DOCUMENTS = ("/api/v1/documents", "/translate_file")
_LINGER = 2.0  # seconds
_CLOSE = {"Connection": "close"}  # the rest of the body is not read any more
_QUIET = ("/health", "/ready", "/metrics")  # asked every few seconds: in the log only when they fail


class Around:
    """ASGI middleware."""

    def __init__(
        self, app: ASGIApp, settings: ServeSettings, metrics: Metrics, admit: Callable[[], None]
    ) -> None:
        """Wrap `app`.

        Args:
            app: what answers.
            settings: the limits.
            metrics: told of each request.
            admit: raises a Problem where a request that translates would find no room.
        """
        self._app, self._settings, self._metrics, self._admit = app, settings, metrics, admit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        own = _id_of(scope)
        request_id.set(own)
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", own.encode())]
            await send(message)

        begun = time.perf_counter()
        try:
            await self._answer(scope, receive, sending)
        except Exception as error:
            if status:
                raise  # half an answer is out: all that is left is to close the connection
            _log.error("%s %s failed", scope["method"], scope["path"], exc_info=error)
            await ProblemResponse(unexpected())(scope, receive, sending)
        finally:
            self._tell(scope, status, time.perf_counter() - begun)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self._read(scope, receive)
            if scope["path"] == _TRANSLATE:
                self._admit()  # before a route is looked for: under overload most work would be refusing
        except Problem as problem:
            await ProblemResponse(problem)(scope, receive, send)
            return
        unread = True

        async def receiving() -> Message:
            nonlocal unread
            if unread:
                unread = False
                return {"type": "http.request", "body": body, "more_body": False}
            return await receive()

        await self._app(scope, receiving, send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body.

        Raises:
            Problem: it is too large, comes too slowly, or never whole.
        """
        limit = "max_document_bytes" if scope["path"] in _DOCUMENTS else "max_body_bytes"
        most: int = getattr(self._settings, limit)
        length = dict(scope["headers"]).get(b"content-length", b"")
        small = not (length.isdigit() and int(length) > most)
        body = bytearray()
        seconds = self._settings.body_seconds
        try:
            async with asyncio.timeout(seconds):
                while small:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Problem(499, "The client is gone", "the body never came whole", "client-gone")
                    body += message.get("body", b"")
                    small = len(body) <= most
                    if small and not message.get("more_body"):
                        return bytes(body)
        except TimeoutError:
            detail = f"the body did not arrive within {seconds:g} s: send it faster, or less of it"
            extra = {"body_seconds": seconds}
            raise Problem(408, "The body came too slowly", detail, "too-slow", extra, _CLOSE) from None
        await _drop_rest(receive)
        raise self._too_large(limit)

    def _too_large(self, limit: str) -> Problem:
        most = getattr(self._settings, limit)
        detail = f"the body is larger than the {most} bytes that are allowed here: send less at once"
        return Problem(413, "The body is too large", detail, "body-too-large", {limit: most}, _CLOSE)

    def _tell(self, scope: Scope, status: int, seconds: float) -> None:
        unrouted = _TRANSLATE if scope["path"] == _TRANSLATE else "other"
        route = getattr(scope.get("route"), "path", unrouted)
        self._metrics.requests.labels(route, _method(scope), status or 499).inc()
        self._metrics.latency.labels(route).observe(seconds)
        if scope["path"] in _QUIET and status == 200:
            return
        client = scope.get("client")
        fields: Mapping[str, object] = {
            "method": scope["method"],
            "path": scope["path"],
            "status": status or 499,  # the client went away before there was an answer
            "seconds": round(seconds, 4),
            "client": client[0] if client else "",
        }
        if caller := scope.get("state", {}).get("caller"):
            fields = {**fields, "caller": caller}
        _access.info("request", extra={"fields": fields})


async def _drop_rest(receive: Receive) -> None:
    """Let the client finish sending, for a while: closed on, it would be reset and never see the answer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER):
            while (await receive()).get("more_body"):
                pass


def _id_of(scope: Scope) -> str:
    """The client's own, if it is sane; else a new one."""
    given = dict(scope["headers"]).get(b"x-request-id", b"")
    return given.decode() if _SANE_ID.fullmatch(given) else secrets.token_hex(8)


def _method(scope: Scope) -> str:
    """A client may invent methods; they must not become as many time series."""
    known = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
    return scope["method"] if scope["method"] in known else "other"
