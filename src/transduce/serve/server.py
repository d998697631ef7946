"""From settings to a process that listens, and stops well: what `transduce serve` calls.

Does not know: routes. The first SIGTERM or SIGINT lets what runs be finished, within
`shutdown_seconds`; the second ends at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from types import FrameType

import uvicorn

from transduce.errors import ServeError, TransduceError
from transduce.serve.app import create_app
from transduce.serve.connections import protocol_for
from transduce.serve.logs import set_up_logs
from transduce.serve.security import is_loopback
from transduce.serve.service import TranslationService
from transduce.serve.settings import ServeSettings

__all__ = ["serve"]

_log = logging.getLogger(__name__)

_AT_ONCE = 130
_BACKLOG = 2048


def serve(settings: ServeSettings) -> None:
    """Serve until told to stop; return when all is finished.

    Raises:
        ModelError: a model is missing or cannot be loaded.
        ServeError: the address cannot be listened at, or two models translate the same languages.
    """
    set_up_logs()
    _warn_if_open(settings)
    service = TranslationService(settings)
    app = create_app(settings, service)
    listening = _listen(settings)
    config = uvicorn.Config(
        app,
        http=protocol_for(settings),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=settings.max_header_bytes,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_seconds)),
        # A request's own address is what it says only behind a proxy that was named (--proxy).
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
    )
    server = _Server(config, service)
    with listening:
        host, port = listening.getsockname()[:2]
        _log.info("listening at http://%s:%d", f"[{host}]" if ":" in host else host, port)
        server.run(sockets=[listening])
    if server.failure is not None:
        raise server.failure


def _warn_if_open(settings: ServeSettings) -> None:
    if settings.keys_file is None and not is_loopback(settings.host):
        _log.warning(
            "everybody who can reach %s may translate: make keys with `transduce keys create`, and give "
            "--keys FILE", settings.host,
        )  # fmt: skip


class _Server(uvicorn.Server):
    """Uvicorn's, which leaves when a model cannot be loaded at the start, and by code 0 when told to."""

    def __init__(self, config: uvicorn.Config, service: TranslationService) -> None:
        super().__init__(config)
        self._service = service
        self.failure: TransduceError | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._watching = asyncio.create_task(self._wait_for_models())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._watching.cancel()
        _log.info("stopping: what is under way is finished first")
        await super().shutdown(sockets)
        # Signals are told to the process again by uvicorn; a clean end is none to a supervisor.
        self._captured_signals.clear()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit and sig in (signal.SIGINT, signal.SIGTERM):
            os._exit(_AT_ONCE)
        super().handle_exit(sig, frame)

    async def _wait_for_models(self) -> None:
        try:
            await self._service.loading()
        except TransduceError as error:
            self.failure, self.should_exit = error, True
        else:
            _log.info("ready")


def _listen(settings: ServeSettings) -> socket.socket:
    """The socket, listening; uvicorn would leave with a code of its own where the port is taken.

    Raises:
        ServeError: the address cannot be listened at.
    """
    try:
        found = socket.getaddrinfo(settings.host, settings.port, 0, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        family, kind, protocol, _, address = found[0]
        # With its protocol named, asyncio turns Nagle's algorithm off for what is accepted; without, an
        # answer's second packet waits 40 ms for the first one's acknowledgement.
        listening = socket.socket(family, kind, protocol)
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(address)
            listening.listen(_BACKLOG)
        except OSError:
            listening.close()
            raise
        return listening
    except OSError as error:
        number = error.errno or 0  # below 0 for a name that cannot be looked up
        what = os.strerror(number) if number > 0 else error.strerror
        raise ServeError(
            f"cannot listen at {settings.host}:{settings.port} ({what}): "
            "choose another --port (0: any free one) or --host"
        ) from error
