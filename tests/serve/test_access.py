"""Who may ask and how often, through real sockets: keys, addresses, proxies; and what the log says of it."""

from __future__ import annotations

import logging

import pytest

from live_server import live_server
from transduce.serve.keys import KeyFile
from transduce.serve.server import _warn_if_open
from transduce.serve.settings import ServeSettings

URL = "/api/v1/translate"
ASKED = {"text": "the light"}


def statuses(client, count, **headers):
    return [client.post(URL, json=ASKED, headers=headers).status_code for _ in range(count)]


def test_keys_open_the_service_and_are_named_in_the_log(served, tmp_path):
    file = KeyFile(tmp_path / "keys.toml")
    key, other = file.create("a", requests_per_minute=2), file.create("b")
    with (
        live_server(served, "--keys", file.path, "--requests-per-minute", "4") as server,
        server.client() as client,
    ):
        assert statuses(client, 1) == [401]
        assert statuses(client, 3, authorization=f"Bearer {key}") == [200, 200, 429]  # its own limit
        assert statuses(client, 5, authorization=f"bearer {other}") == [200] * 4 + [429]  # the service's
        answer = client.post(URL, json=ASKED, headers={"authorization": f"Bearer {key}"})
        assert 1 <= int(answer.headers["retry-after"]) <= 30
        assert answer.json()["requests_per_minute"] == 2
        for path in ("/health", "/ready", "/metrics", "/languages", "/openapi.json", "/frontend/settings"):
            assert client.get(path).status_code == 200
        assert client.get("/api/v1/models").status_code == 401
        server.stop()
    log = str(server.lines)
    assert f"key:{key.split('-')[1]}" in log
    assert key not in log
    assert key.split("-", 2)[2] not in log


def test_a_revoked_key_is_refused_within_a_second_or_two(served, tmp_path):
    import time

    file = KeyFile(tmp_path / "keys.toml")
    key = file.create("a")
    with live_server(served, "--keys", file.path) as server, server.client() as client:
        assert statuses(client, 1, authorization=f"Bearer {key}") == [200]
        file.revoke(key)
        time.sleep(1.2)
        assert statuses(client, 1, authorization=f"Bearer {key}") == [403]


def test_without_keys_each_address_has_its_share(served):
    with live_server(served, "--requests-per-minute", "2") as server, server.client() as client:
        assert statuses(client, 3) == [200, 200, 429]
        # What a client says of its own address is not believed.
        assert statuses(client, 1, **{"x-forwarded-for": "192.0.2.1"}) == [429]


def test_a_named_proxy_is_believed(served):
    limits = ["--requests-per-minute", "1", "--proxy", "127.0.0.1"]
    with live_server(served, *limits) as server, server.client() as client:
        for address in ("192.0.2.1", "192.0.2.2", "2001:db8::1"):
            assert statuses(client, 2, **{"x-forwarded-for": address}) == [200, 429]
        assert statuses(client, 1, **{"x-forwarded-for": "2001:db8::2"}) == [429]  # the same network


def test_guessing_keys_is_slowed_down(served, tmp_path, open_client):
    file = KeyFile(tmp_path / "keys.toml")
    key = file.create("a")
    with open_client(models=(served,), keys_file=file.path) as client:
        # One a second is forgiven, and a busy machine may take its time: sooner or later one is too many.
        found = statuses(client, 120, authorization="Bearer td-aaaaaaaa-" + "a" * 43)
        assert found[:60] == [403] * 60
        assert found[60:].count(429) > 30
        assert statuses(client, 1, authorization=f"Bearer {key}") == [200]  # who has one is not disturbed


@pytest.mark.parametrize(
    ("host", "told"), [("0.0.0.0", True), ("::", True), ("127.0.0.1", False), ("::1", False)]
)
def test_an_open_door_is_told(host, told, caplog, tmp_path):
    with caplog.at_level(logging.WARNING, "transduce"):
        logging.getLogger("transduce").propagate = True
        _warn_if_open(ServeSettings(host=host))
    assert ("may translate: make keys" in caplog.text) == told
    caplog.clear()
    _warn_if_open(ServeSettings(host=host, keys_file=tmp_path / "keys.toml"))
    assert not caplog.text


def test_a_missing_file_of_keys_is_one_line(served, tmp_path):
    from live_server import LiveServer

    server = LiveServer(served, "--keys", tmp_path / "none.toml")
    assert server.process.wait(30) == 2
    while not server.lines:
        pass
    assert "none.toml: No such file or directory; `transduce keys create" in str(server.lines)
    server.process.stderr.close()
