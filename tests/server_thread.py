"""A real server on loopback, in a thread, for clients that know nothing but an address."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from transduce.serve.app import create_app
from transduce.serve.connections import protocol_for
from transduce.serve.settings import ServeSettings

__all__ = ["server_thread"]


@contextmanager
def server_thread(**settings: object) -> Iterator[str]:
    """Serve; give the address, as `http://127.0.0.1:PORT`, once the models are loaded."""
    found = ServeSettings(**settings)
    app = create_app(found)
    config = uvicorn.Config(
        app, http=protocol_for(found), ws="none", log_config=None, access_log=False, server_header=False
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        end = time.monotonic() + 30
        while not (server.started and app.state.service.ready):
            assert time.monotonic() < end, "the server did not start"
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive(), "the server did not stop"
