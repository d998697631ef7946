"""Headers on every answer, foreign pages, paths: what a browser and a stranger may do."""

from __future__ import annotations

import pytest

from live_server import live_server
from transduce.serve.security import is_loopback

TRANSLATE = {"q": "one", "source": "en", "target": "de"}
EVERYWHERE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-resource-policy": "same-origin",
}


def routes(client):
    """Every path and method that the service has."""
    paths = client.get("/openapi.json").json()["paths"]
    return [(method, path) for path, methods in paths.items() for method in methods] + [
        ("get", "/openapi.json"),
        ("get", "/nowhere"),
        ("delete", "/translate"),
        ("options", "/translate"),
    ]


def test_every_answer_has_the_headers(client):
    for method, path in routes(client):
        answer = client.request(method, path)
        for name, value in EVERYWHERE.items():
            assert answer.headers[name] == value, (method, path)
        assert "default-src 'none'" in answer.headers["content-security-policy"], (method, path)
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers


def test_a_real_server_names_no_software(served):
    with live_server(served) as server, server.client() as client:
        answer = client.get("/health")
        assert "server" not in answer.headers
        assert "python" not in str(answer.headers).lower()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "",
             "a b", "localhost@evil.example", "0x7f.1", "[::2]", "\xff"],
)  # fmt: skip
def test_other_names_are_not_answered_to(client, host):
    """A page that lets its own name point here (DNS rebinding) gets nothing."""
    for method, path in (("get", "/api/v1/models"), ("post", "/translate"), ("get", "/openapi.json")):
        answer = client.request(method, path, headers={"host": host.encode("latin-1")})
        assert answer.status_code == 421
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["type"].endswith("unknown-host")
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "127.0.0.1:1", "[::1]", "[::1]:8000", "LOCALHOST."]
)
def test_own_names_are_answered_to(client, host):
    assert client.get("/health", headers={"host": host}).status_code == 200


def test_more_names_can_be_allowed(served, open_client):
    with open_client(models=(served,), host_names=("mt.example",)) as client:
        assert client.get("/health", headers={"host": "mt.example"}).status_code == 200
        assert client.get("/health", headers={"host": "localhost"}).status_code == 200
        assert client.get("/health", headers={"host": "evil.example"}).status_code == 421
    with open_client(models=(served,), host="0.0.0.0") as client:  # others come by names we cannot know
        assert client.get("/health", headers={"host": "mt.example"}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "file://"])
def test_foreign_pages_cannot_post(client, origin):
    headers = {"origin": origin, "host": "localhost:8000"}
    answer = client.post("/translate", json=TRANSLATE, headers=headers)
    assert answer.status_code == 403
    assert answer.json()["type"].endswith("foreign-origin")
    assert client.post("/translate", data=TRANSLATE, headers=headers).status_code == 403
    read = client.get("/languages", headers=headers)
    assert "access-control-allow-origin" not in read.headers  # the page that asks may not read it


def test_the_own_page_can_post(client):
    headers = {"origin": "http://localhost:8000", "host": "localhost:8000"}
    assert client.post("/translate", json=TRANSLATE, headers=headers).status_code == 200


def test_an_allowed_origin_may_ask_and_read(served, open_client):
    with open_client(models=(served,), cors_origins=("https://cms.example",)) as client:
        headers = {"origin": "https://cms.example"}
        answer = client.post("/translate", json=TRANSLATE, headers=headers)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://cms.example"
        assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
        wanted = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
        asked = client.options("/api/v1/translate", headers={**headers, **wanted})
        assert asked.status_code == 200
        assert "Authorization" in asked.headers["access-control-allow-headers"]
        other = client.post("/translate", json=TRANSLATE, headers={"origin": "https://evil.example"})
        assert other.status_code == 403
        assert "access-control-allow-origin" not in other.headers


TRICKS = [
    "../../../../etc/passwd", "..%2f..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "..%5c..%5cwindows",
    "....//....//etc/passwd", "/etc/passwd", "//etc/passwd", "%00", "a%00.po", "C:/x", "%c0%ae%c0%ae/",
    "~root", "file:///etc/passwd", "%252e%252e%252f", ".git/config", "keys.toml", "%ff%fe",
]  # fmt: skip


def test_no_path_leads_out_of_any_route(client):
    for _, path in routes(client):
        base = path.partition("{")[0].rstrip("/")
        for trick in TRICKS:
            answer = client.get(f"{base}/{trick}")
            assert answer.status_code in (404, 405), (base, trick)
            assert answer.headers["content-type"] == "application/problem+json"
            assert "root:x:0" not in answer.text


def test_which_addresses_only_this_machine_reaches():
    assert [is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost")] == [
        True
    ] * 5
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "192.0.2.1", "mt.example", "")] == [False] * 5
