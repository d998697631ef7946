"""A model to serve, and clients that need no socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from served_models import write_model
from transduce.serve.app import create_app
from transduce.serve.settings import ServeSettings


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("served") / "en-de")


@pytest.fixture(scope="session")
def open_client() -> Callable[..., object]:
    """Open a client of a server with the given settings; its service is started and stopped."""

    @contextmanager
    def opened(**settings: object) -> Iterator[TestClient]:
        app = create_app(ServeSettings(**settings))
        with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
            client.portal.call(app.state.service.loading)
            yield client

    return opened


@pytest.fixture(scope="module")
def client(served, open_client) -> Iterator[TestClient]:
    with open_client(models=(served,)) as found:
        yield found
