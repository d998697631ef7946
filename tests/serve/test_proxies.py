"""The proxies of deploy/, really in front of the service: TLS, events as they come, what stays inside."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import time

import httpx2
import pytest

from digits import ROOT
from live_server import live_server
from served_models import WORDS
from serving import free_port

NAME = "mt.example.org"
URL = "/api/v1/translate"
TEXTS = [f"{WORDS[i % len(WORDS)]} {WORDS[i * 7 % len(WORDS)]}" for i in range(2000)]  # some twenty batches


@pytest.fixture(scope="module")
def server(served):
    with live_server(served, "--allow-host", NAME, "--proxy", "127.0.0.1", "--max-texts", "2000") as found:
        yield found


def certificate(directory):
    """For a day, signed by itself."""
    subject = ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
    files = ["-keyout", str(directory / "key.pem"), "-out", str(directory / "certificate.pem")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject, *files]
    subprocess.run(command, check=True, capture_output=True)


def nginx(directory, port, service):
    """The shipped file in an http block of its own, with this machine's port and certificate."""
    site = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    for old, new in {
        "listen 443": f"listen 127.0.0.1:{port}",
        "127.0.0.1:8000": service,
        f"/etc/ssl/{NAME}.pem": f"{directory}/certificate.pem",
        f"/etc/ssl/private/{NAME}.key": f"{directory}/key.pem",
    }.items():
        assert old in site
        site = site.replace(old, new)
    temporary = "".join(
        f"{name}_temp_path {directory}/{name};\n"
        for name in "client_body proxy fastcgi uwsgi scgi".split()  # noqa: SIM905
    )
    user = (
        "user root;\n" if os.geteuid() == 0 else ""
    )  # large bodies wait in files: nobody else may enter here
    main = f"{user}daemon off; worker_processes 1; pid {directory}/pid; events {{ worker_connections 64; }}\n"
    http = f"http {{ access_log off;\n{temporary}{site}}}\n"
    (directory / "main.conf").write_text(main + http, encoding="utf-8")
    return ["nginx", "-e", f"{directory}/error.log", "-c", f"{directory}/main.conf"]


def caddy(directory, port, service):
    site = (ROOT / "deploy" / "Caddyfile").read_text(encoding="utf-8")
    assert f"{NAME} {{" in site
    assert "127.0.0.1:8000" in site
    own = f"https://{NAME}:{port} {{\n\tbind 127.0.0.1\n\ttls {directory}/certificate.pem {directory}/key.pem"
    site = site.replace(f"{NAME} {{", own).replace("127.0.0.1:8000", service)
    here = "{\n\tadmin off\n\tauto_https disable_redirects\n}\n"
    (directory / "Caddyfile").write_text(here + site, encoding="utf-8")
    return ["caddy", "run", "--adapter", "caddyfile", "--config", f"{directory}/Caddyfile"]


@pytest.fixture(scope="module", params=[nginx, caddy], ids=lambda proxy: proxy.__name__)
def client(request, server, tmp_path_factory):
    """Speaks TLS with the proxy, as if the name led there."""
    if not shutil.which(request.param.__name__) or not shutil.which("openssl"):
        pytest.skip(f"{request.param.__name__} or openssl is not installed")
    directory, port = tmp_path_factory.mktemp("proxy"), free_port()
    certificate(directory)
    command = request.param(directory, port, server.url.removeprefix("http://"))
    with (directory / "log").open("w") as log:
        home = os.environ | {"XDG_CONFIG_HOME": str(directory), "XDG_DATA_HOME": str(directory)}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=home)
        try:
            trust = ssl.create_default_context(cafile=str(directory / "certificate.pem"))
            extensions = {"sni_hostname": NAME}
            with httpx2.Client(base_url=f"https://127.0.0.1:{port}", verify=trust, timeout=30) as client:
                client.headers["host"] = f"{NAME}:{port}"
                client.event_hooks["request"].append(lambda sent: sent.extensions.update(extensions))
                wait_for(client, process, directory / "log")
                yield client
        finally:
            process.terminate()
            process.wait(10)


def wait_for(client, process, log):
    end = time.monotonic() + 15
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()
        try:
            if client.get("/health").status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.05)
    raise AssertionError(log.read_text())


def test_it_translates_as_without_the_proxy(client, server):
    asked = {"texts": TEXTS[:20]}
    with server.client() as direct:
        assert client.post(URL, json=asked).json() == direct.post(URL, json=asked).json()


def test_events_come_while_the_rest_is_translated(client):
    begun = time.perf_counter()
    times, events = [], b""
    headers = {"Accept": "text/event-stream"}
    with client.stream("POST", URL, json={"texts": TEXTS, "beam_size": 4}, headers=headers) as answer:
        for part in answer.iter_raw():
            times.append(time.perf_counter() - begun)
            events += part
    assert events.count(b"event: translation") == len(TEXTS)
    assert times[0] < times[-1] / 2
    assert json.loads(events.rstrip().rpartition(b"data: ")[2]) == {"texts": len(TEXTS)}


def test_what_operators_ask_stays_inside(client):
    assert [client.get(path).status_code for path in ("/metrics", "/ready")] == [404, 404]
    assert client.get("/health").json() == {"status": "ok"}


def test_own_pages_may_ask_and_foreign_ones_may_not(client):
    port = client.base_url.port
    for origin, status in ((f"https://{NAME}:{port}", 200), ("https://evil.example", 403)):
        assert client.post(URL, json={"text": WORDS[0]}, headers={"Origin": origin}).status_code == status


def test_a_body_that_is_too_large_is_refused_at_the_edge(client, server):
    heard = len(server.lines)
    try:
        status = client.post(URL, content=b" " * 11_000_000).status_code
    except httpx2.TransportError:
        status = 413  # refused before all of it was read
    assert status in (413, 502)
    assert not [line for line in server.lines[heard:] if line.get("status") == 200]


def test_nobody_chooses_the_address_that_is_logged(client, server):
    client.get("/nothing", headers={"X-Forwarded-For": "203.0.113.9", "X-Request-Id": "forged-1"})
    end = time.monotonic() + 5
    while time.monotonic() < end:
        told = [line for line in list(server.lines) if line.get("request_id") == "forged-1"]
        if told:
            break
        time.sleep(0.02)
    assert told[0]["client"] == "127.0.0.1"
