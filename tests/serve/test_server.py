"""The process: signals, slow and large and many connections, start-up; all through real sockets."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from live_server import PROGRAM, live_server
from served_models import WORDS
from transduce.errors import ServeError
from transduce.serve.server import _listen
from transduce.serve.settings import ServeSettings

URL = "/api/v1/translate"
HEAVY = ["torch", "sacrebleu", "safetensors", "jaxtyping", "lxml", "transduce.recipe", "transduce.lens"]
LIMITS = (
    "--header-seconds", "0.6", "--body-seconds", "0.6", "--send-seconds", "0.6", "--max-header-bytes", "2000",
    "--max-connections", "12", "--max-body-bytes", "100000",
)  # fmt: skip


@pytest.fixture(scope="module")
def server(served):
    with live_server(served, *LIMITS) as found:
        yield found


def read_all(connection, seconds=10.0):
    """What comes until the server closes."""
    connection.settimeout(seconds)
    found = b""
    while True:
        try:
            part = connection.recv(65_536)
        except ConnectionResetError:
            return found
        if not part:
            return found
        found += part


def answered(connection, seconds=10.0):
    """Status and problem of an answer after which the server closes."""
    head, _, body = read_all(connection, seconds).partition(b"\r\n\r\n")
    assert b"x-content-type-options: nosniff" in head
    assert b"content-security-policy: default-src 'none'" in head
    return int(head.split()[1]), json.loads(body)


def post(body, headers=""):
    head = f"POST {URL} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}\r\n"
    return head.encode() + body


def test_it_answers_and_logs_no_text(server):
    with server.client() as client:
        answer = client.post(URL, json={"text": "secretword"}, headers={"X-Request-Id": "mine-1"})
        assert answer.status_code == 200
        assert answer.headers["x-request-id"] == "mine-1"
        assert (
            client.get("/health", headers={"X-Request-Id": "not sane\t!"}).headers["x-request-id"]
            != "not sane"
        )
    line = next(line for line in server.lines if line.get("request_id") == "mine-1")
    assert (line["method"], line["path"], line["status"]) == ("POST", URL, 200)
    assert "secretword" not in json.dumps(server.lines)


def test_an_answer_does_not_wait_for_acknowledgements(server):
    """Forty milliseconds a request, if Nagle's algorithm meets delayed acknowledgements."""
    times = []
    with socket.create_connection(server.address) as connection:
        connection.settimeout(10)
        for _ in range(40):  # the first of a connection are acknowledged at once
            begun = time.monotonic()
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            found = b""
            while not found.endswith(b"}"):
                found += connection.recv(10_000)
            times.append(time.monotonic() - begun)
    assert min(times[20:]) < 0.03


def test_headers_a_byte_at_a_time_are_cut_off(server):
    with socket.create_connection(server.address) as connection:
        begun = time.monotonic()
        try:
            for byte in b"GET /health HTTP/1.1\r\nHost: " + b"x" * 1000:
                connection.sendall(bytes([byte]))
                time.sleep(0.05)
                if time.monotonic() - begun > 5:
                    break
        except OSError:
            pass
        assert 0.5 < time.monotonic() - begun < 3
    with socket.create_connection(server.address) as connection:  # and one who says nothing at all
        status, problem = answered(connection)
    assert (status, problem["header_seconds"]) == (408, 0.6)


def test_headers_of_a_second_request_are_timed_too(server):
    with socket.create_connection(server.address) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(0.2)
        connection.sendall(b"GET /hea")
        begun = time.monotonic()
        found = read_all(connection)
        assert time.monotonic() - begun < 3
    assert found.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 408" in found


def test_a_slow_body_is_cut_off(server):
    with socket.create_connection(server.address) as connection:
        connection.sendall(post(b'{"te', "Content-Length: 50\r\n"))
        status, problem = answered(connection)
    assert (status, problem["body_seconds"]) == (408, 0.6)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_is_refused_whoever_counts_it(server, chunked):
    part = b"x" * 10_000
    with socket.create_connection(server.address) as connection:
        if chunked:
            connection.sendall(post(b"", "Transfer-Encoding: chunked\r\n"))
            for _ in range(11):
                connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        else:
            connection.sendall(post(b"", "Content-Length: 110000\r\n"))
        status, problem = answered(connection)
    assert (status, problem["max_body_bytes"]) == (413, 100_000)


def test_large_headers_and_what_is_no_http_are_problems(server):
    for sent, expected in [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 5000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 5000, 431),
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (
            post(b"0\r\n\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\nConnection: close\r\n"),
            None,
        ),
    ]:
        with socket.create_connection(server.address) as connection:
            connection.sendall(sent)
            status, problem = answered(connection)
        assert status == expected or (expected is None and status < 500), sent[:40]
        assert problem["status"] == status


def test_too_many_connections_are_told(server):
    held = [socket.create_connection(server.address) for _ in range(12)]
    try:
        time.sleep(0.1)
        with socket.create_connection(server.address) as connection:
            status, problem = answered(connection)
        assert (status, problem["max_connections"]) == (503, 12)
    finally:
        for connection in held:
            connection.close()
    time.sleep(0.1)
    with server.client() as client:
        assert client.get("/health").status_code == 200


def test_who_does_not_read_is_cut_off(server):
    count = 300
    with server.client() as client:
        size = len(client.get("/openapi.json").content)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(server.address)
        connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * count)
        time.sleep(1.5)
        assert len(read_all(connection)) < count * size


def test_a_client_that_goes_away_frees_its_place(served):
    with live_server(served, "--max-beam-size", "64") as server, server.client() as client:
        body = json.dumps({"texts": ["light " * 30] * 900, "beam_size": 32}).encode()
        for headers in ("", "Accept: text/event-stream\r\n"):
            with socket.create_connection(server.address) as connection:
                connection.sendall(post(body, f"Content-Length: {len(body)}\r\n{headers}"))
                deadline = time.monotonic() + 10
                while queued(client) < 300:
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
            time.sleep(0.3)
            assert queued(client) == 0
        statuses = [line["status"] for line in server.lines if line.get("path") == URL]
        assert statuses[0] == 499


def queued(client):
    lines = client.get("/metrics").text.split("\n")
    return float(next(line for line in lines if line.startswith("transduce_queue_pieces")).split()[-1])


def test_a_signal_lets_what_runs_be_finished(served):
    with live_server(served) as server, server.client() as client:
        answers = []
        body = {"texts": WORDS * 12, "beam_size": 8}
        request = threading.Thread(target=lambda: answers.append(client.post(URL, json=body)))
        request.start()
        with server.client() as other:
            while queued(other) == 0 and not answers:
                time.sleep(0.005)
        assert server.stop() == 0
        request.join(10)
        assert answers[0].status_code == 200
        assert len(answers[0].json()["translations"]) == len(body["texts"])
        with pytest.raises(OSError):  # noqa: PT011
            socket.create_connection(server.address, timeout=2)


def test_a_second_signal_ends_at_once(served):
    with live_server(served, "--max-beam-size", "64") as server:
        body = json.dumps({"texts": ["light " * 30] * 1000, "beam_size": 64}).encode()
        with socket.create_connection(server.address) as connection, server.client() as client:
            connection.sendall(post(body, f"Content-Length: {len(body)}\r\n"))
            while queued(client) == 0:
                time.sleep(0.01)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for("stopping")
            server.process.send_signal(signal.SIGTERM)
            begun = time.monotonic()
            assert server.process.wait(10) == 130
            assert time.monotonic() - begun < 2


def serve(*arguments):
    command = [*PROGRAM, "serve", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_what_cannot_be_served_is_one_line_and_exit_code_2(served, server, tmp_path):
    port = server.address[1]
    for arguments, words in [
        ((tmp_path / "nowhere",), "there is no model directory"),
        ((served, "--port", port), f"cannot listen at 127.0.0.1:{port} (Address already in use): choose"),
        (
            (served, "--max-texts", "0", "--set", "search.patience=1"),
            "max_texts is 0, but must be at least 1",
        ),
        ((served, "--set", "search.patiense=1", "--port", "0"), "patiense"),
    ]:
        result = serve(*arguments)
        last = result.stderr.strip().split("\n")[-1]
        assert result.returncode == 2, result.stderr
        assert last.startswith("error: ")
        assert words in last
        assert "Traceback" not in result.stderr


def test_settings_out_of_range_are_told():
    for settings, words in [
        ({"port": 70_000}, "port is 70000, but must lie in"),
        ({"max_body_bytes": 0}, "max_body_bytes is 0, but must be at least 1"),
        ({"request_seconds": 0.0}, "request_seconds is 0.0"),
        ({"max_texts": 10, "max_queue_texts": 5}, "max_texts (10) is larger than max_queue_texts (5)"),
    ]:
        with pytest.raises(ServeError, match=re.escape(words)):
            ServeSettings(**settings)
    with pytest.raises(ServeError, match=r"cannot listen at not\.a\.host\.invalid:0 \("):
        _listen(ServeSettings(host="not.a.host.invalid", port=0))


def test_a_model_that_cannot_be_loaded_at_the_start_is_exit_code_2(served, tmp_path):
    path = tmp_path / "damaged"
    shutil.copytree(served, path)
    (path / "ct2" / "model.bin").write_bytes(b"\xff" * 100)
    result = serve(path, "--port", "0")
    assert result.returncode == 2
    assert "error: CTranslate2 cannot load" in result.stderr
    assert "Traceback" not in result.stderr


def test_serving_an_export_loads_no_torch(served):
    """Nor anything else that only training needs."""
    code = (
        "import sys, asyncio, pathlib\n"
        "from transduce.serve.server import serve\n"
        "from transduce.serve.service import TranslationService\n"
        "from transduce.serve.settings import ServeSettings\n"
        "async def main():\n"
        f"    service = TranslationService(ServeSettings(models=(pathlib.Path({str(served)!r}),)))\n"
        "    await service.start(); await service.loading()\n"
        "    print(len(await service.translate(['one'])))\n"
        "    await service.stop()\n"
        "asyncio.run(main())\n"
        f"print([name for name in {HEAVY} if name in sys.modules])\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "1\n[]\n", result.stderr


def test_a_refusal_reaches_who_is_still_sending(server):
    """Ten megabytes where a tenth of one is allowed, and a request where no connection is."""
    with server.client() as client:
        assert client.post(URL, content=b"x" * 10_000_000).status_code == 413
    held = [socket.create_connection(server.address) for _ in range(12)]
    try:
        time.sleep(0.1)
        with server.client() as client:
            for _ in range(5):
                assert client.post(URL, json={"text": "one " * 5000}).status_code == 503
    finally:
        for connection in held:
            connection.close()
