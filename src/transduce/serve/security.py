"""Headers on every answer, and who may be spoken to as: ASGI layers around the whole service.

    SecurityHeaders     what a browser may do with an answer
    KnownHosts          refuses names that are not this service's (DNS rebinding), and foreign pages

Does not know: routes, keys, models.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from starlette.middleware.cors import CORSMiddleware

from transduce.serve.problems import Problem, ProblemResponse
from transduce.serve.settings import ServeSettings

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["KnownHosts", "SecurityHeaders", "add_host_checks", "is_loopback", "with_security_headers"]

# The page loads only what the service itself serves; pictures it draws are data: and blob:.
_PAGE_POLICY: Final = (
    "default-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; object-src 'none'"
)
_OTHER_POLICY: Final = "default-src 'none'; frame-ancestors 'none'"
_HEADERS: Final = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"x-frame-options": b"DENY",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-embedder-policy": b"require-corp",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
}
_LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST: Final = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s:/\[\]@]+))(?::\d{1,5})?")
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def add_host_checks(app: FastAPI, settings: ServeSettings) -> None:
    """Refuse what foreign pages send, except those of `cors_origins`."""
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-Request-Id"],
            expose_headers=["Retry-After", "Transduce-Report", "X-Request-Id"],
        )
    names = settings.host_names or (() if is_loopback(settings.host) else ("*",))
    app.add_middleware(KnownHosts, names=names, origins=settings.cors_origins)


class SecurityHeaders:
    """Adds headers to every answer, errors too; what a route has set itself stays."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application."""
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its answer back with headers."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = with_security_headers(message.get("headers", []))
            await send(message)

        await self.app(scope, receive, send_with_headers)


def with_security_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """An answer's headers, names in small letters, and what it lacks of those that keep browsers safe."""
    own = [(name.lower(), value) for name, value in headers]
    there = {name for name, _ in own}
    kind = next((value for name, value in own if name == b"content-type"), b"")
    policy = _PAGE_POLICY if kind.startswith((b"text/html", b"image/svg")) else _OTHER_POLICY
    wanted = {**_HEADERS, b"content-security-policy": policy.encode()}
    # Whom CORS lets read an answer may also embed it; CORS itself stays the lock.
    if b"access-control-allow-origin" in there:
        wanted[b"cross-origin-resource-policy"] = b"cross-origin"
    return own + [(name, value) for name, value in wanted.items() if name not in there]


class KnownHosts:
    """Refuses requests that a foreign web page could have sent.

    A page can let its own name point to 127.0.0.1 and then read what a service there answers (DNS
    rebinding): the request's Host header gives it away. And it can post to any address without being
    able to read the answer: its Origin header does.
    """

    def __init__(self, app: ASGIApp, *, names: Collection[str] = (), origins: Collection[str] = ()) -> None:
        """Wrap an application.

        Args:
            app: what is wrapped.
            names: host names the service may be called by, besides localhost, 127.0.0.1 and [::1];
                `*` allows all.
            origins: foreign pages' origins that CORS allows; `*` allows all.
        """
        self.app = app
        self._names = _LOCAL_NAMES | {name.lower().strip("[]") for name in names}
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        problem = self._problem(scope) if scope["type"] in ("http", "websocket") else None
        if problem is None:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await ProblemResponse(problem)(scope, receive, send)

    def _problem(self, scope: Scope) -> Problem | None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        match = _HOST.fullmatch(host)
        name = (match["v6"] or match["name"]).lower().rstrip(".") if match else ""
        if "*" not in self._names and name not in self._names:
            return Problem(
                421,
                "This service does not answer to that name",
                f"the Host header is {host[:100]!r}; this service answers to "
                f"{', '.join(sorted(self._names))}: start it with --allow-host NAME to add one",
                "unknown-host",
            )
        origin = headers.get(b"origin", "").lower()
        foreign = origin and origin.partition("://")[2] != host.lower()
        if foreign and scope.get("method") not in _SAFE_METHODS and not self._origins & {"*", origin}:
            return Problem(
                403,
                "Web pages of other origins may not use this service",
                f"the Origin header is {origin[:100]!r}, and the service's own host is {host[:100]!r}: "
                "start it with --cors ORIGIN to allow it",
                "foreign-origin",
            )
        return None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what is bound to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
