"""The benchmarks of the service: their sums, and each of them for a second or two on a tiny model."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from starlette.testclient import TestClient

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "serve"))

import libretranslate
import overload
from client import WIRES, Connection
from load import Questions, Tally, closed_loop, open_loop, percentile, problem_kind, ramp
from plain_server import KINDS, make_app
from questions import read_sentences, translate_offline

from served_models import WORDS, write_model

HERE = Path(overload.__file__).parent
PROBLEM = json.dumps({"type": "https://transduce.invalid/problems/queue-full", "status": 429}).encode()


def _by_path(name):
    """The other benchmarks have a `throughput` too."""
    spec = importlib.util.spec_from_file_location(f"serve_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


throughput = _by_path("throughput")


def test_percentiles_are_values_that_occurred():
    assert [percentile(list(range(1, 101)), share) for share in (0.5, 0.95, 1.0)] == [50, 95, 100]
    assert percentile([7.0], 0.95) == 7.0


def test_full_speed_begins_with_the_first_window_that_has_it():
    slow, fast = [0.5 * i for i in range(4)], [2.0 + 0.01 * i for i in range(300)]
    assert ramp(slow + fast, rate=100) == pytest.approx(1.9)
    assert ramp(fast, rate=1000) is None
    assert ramp([], rate=1) is None


def test_a_tally_counts_what_came_in_time_and_what_was_wrong():
    tally = Tally()
    for end, status, right in [(0.5, 200, True), (1.5, 200, False), (2.5, 200, True), (0.1, 429, True)]:
        tally.take(status, PROBLEM, right, end - 0.25, end, 0.0)
    found = tally.figures(2.0)
    assert (found["requests_s"], found["wrong"], found["requests"]) == (1.0, 1, 4)
    assert found["statuses"] == {"200": 3, "429": 1}
    assert found["problems"] == {"queue-full": 1}
    assert found["p50_ms"] == found["p95_ms"] == 250.0


def test_an_error_that_is_no_problem_is_undeclared():
    assert [problem_kind(body) for body in (PROBLEM, b"<h1>oh</h1>", b"[]")] == [
        "queue-full", "undeclared", "undeclared",
    ]  # fmt: skip


def test_each_server_is_asked_in_its_own_words():
    body = json.loads(WIRES["libretranslate"].body("one", {"source": "en", "target": "de"}))
    assert body == {"q": "one", "format": "text", "source": "en", "target": "de"}
    answer = json.dumps({"translations": [{"text": "eins"}]}).encode()
    assert WIRES["transduce"].translation(answer) == "eins"


def test_another_sentences_answer_is_wrong():
    wire = WIRES["plain"]
    questions = Questions(wire, [b"", b""], [["eins"], ["zwei", "zwo"]])
    told = [json.dumps({"text": word}).encode() for word in ("eins", "zwo")]
    assert [questions.is_right(number, told[1]) for number in (0, 1)] == [False, True]
    assert not questions.is_right(0, b"{}")
    assert [questions.next() for _ in range(3)] == [0, 1, 0]


def test_medians_of_rounds_and_sums_of_mistakes():
    rounds = [
        dict.fromkeys(throughput._MEDIANS, value)
        | {"wrong": 1, "requests": 5, "statuses": {"200": 4, "broken": 1}}
        for value in (3.0, 1.0, 2.0)
    ]
    found = throughput.median(rounds)
    assert (found["requests_s"], found["wrong"], found["failed"]) == (2.0, 3, 3)
    figures = {"transduce": {1: found, 4: found, 64: found}, "one-at-a-time": {64: found}}
    assert throughput.aims(figures)["times_one_at_a_time"] == 1.0
    assert throughput.table(figures).count("\n") == 1 + 4


def test_memory_is_flat_by_its_spread():
    assert overload.spread([50.0, 100.0, 105.0, 100.0], 1) == 0.05
    assert overload.spread([1.0], 0) is None


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({}, None),
        ({"load": {"statuses": {"200": 1, "500": 1}}}, "statuses"),
        ({"load": {"problems": {"undeclared": 1}}}, "statuses"),
        ({"after": {"statuses": {"broken": 1}}}, "statuses"),
        ({"load": {"wrong": 1}}, "answers"),
        ({"memory_spread": 0.2}, "memory"),
        ({"full_speed_s": None}, "full_speed"),
        ({"health_failed": 1}, "health"),
    ],
)
def test_a_broken_promise_is_told(change, broken):
    good = {"statuses": {"200": 9, "429": 5}, "problems": {"queue-full": 5}, "wrong": 0}
    found = {name: dict(good) for name in ("before", "load", "after")}
    found |= {"memory_spread": 0.05, "health_failed": 0, "full_speed_s": 0.3}
    for name, value in change.items():
        found[name] = found[name] | value if isinstance(value, dict) else value
    assert [name for name, well in overload.kept(found).items() if not well] == ([broken] if broken else [])


def test_sentences_are_read_once_each(tmp_path):
    file = tmp_path / "a.gz"
    file.write_bytes(gzip.compress(b"b\n\na\nb\nc\n"))
    assert read_sentences(file, 2) == ["b", "a"]
    file.write_bytes(gzip.compress(b"\n"))
    with pytest.raises(ValueError, match="no line with text"):
        read_sentences(file, 2)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("benchmark") / "en-de")


def test_offline_answers_are_the_same_in_every_company(model):
    found = translate_offline(model, WORDS[:10], {"beam_size": 2})
    assert [len(answers) for answers in found] == [1] * 10  # it is a float32 export


def test_libretranslates_packages_hold_what_it_reads(model, tmp_path):
    import numpy as np
    import onnxruntime

    libretranslate.write_packages(tmp_path, model, ("en", "de"))
    (one, two) = sorted((tmp_path / "libretranslate" / "packages").iterdir())
    for package, (source, target) in ((one, ("de", "en")), (two, ("en", "de"))):
        about = json.loads((package / "metadata.json").read_text())
        assert (about["from_code"], about["to_code"]) == (source, target)
        assert (package / "model" / "model.bin").exists()
        assert (package / "sentencepiece.model").exists()
    session = onnxruntime.InferenceSession(two / "minisbd" / "one_sentence.onnx")
    units = np.array([[5, 6, 7]], dtype=np.int64)
    (scores,) = session.run(None, {"units": units, "features": np.zeros((1, 3, 1), dtype=np.float32)})
    assert scores.argmax(axis=2).tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("kind", KINDS)
def test_the_plain_servers_answer(model, kind):
    app = make_app(kind, model, {"beam_size": 2, "patience": 1.0})
    with TestClient(app) as client:
        answer = client.post("/translate", json={"text": WORDS[0]})
    (right,) = translate_offline(model, WORDS[:1], {"beam_size": 2, "patience": 1.0})
    assert answer.status_code == 200
    assert kind != "lock" or answer.json()["text"] in right


class Refusing:
    """A server that answers every other question, and refuses the rest."""

    def __init__(self):
        self.count = 0

    async def __call__(self, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await self.answer(reader, writer):
                pass
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def answer(self, reader, writer):
        """Whether there may be another question."""
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split()[0]))
        self.count += 1
        good = self.count % 2 == 1
        body = b'{"text": "eins"}' if good else PROBLEM
        status = b"200 OK" if good else b"429 Too Many Requests\r\nConnection: close"
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))
        await writer.drain()
        return good


def with_refusing(use):
    """Run `use(port)` beside such a server."""

    async def run():
        async with await asyncio.start_server(Refusing(), "127.0.0.1", 0) as server:
            found = await use(server.sockets[0].getsockname()[1])
            await asyncio.sleep(0.1)  # connections are closed in turns of the loop to come
            return found

    return asyncio.run(run())


def plain_questions():
    return Questions(WIRES["plain"], [b"{}"] * 3, [["eins"], ["zwei"], ["eins"]])


def test_both_loops_go_on_after_refusals_and_see_wrong_answers():
    closed = with_refusing(lambda port: closed_loop(plain_questions(), port, 3, 0.3))
    tally, late = with_refusing(lambda port: open_loop(plain_questions(), port, 200, 0.5))
    for found in (closed, tally):
        assert set(found.statuses) == {"200", "429"}
        assert 0 < found.wrong < found.statuses["200"]
        assert found.kinds == Counter({"queue-full": found.statuses["429"]})
    assert 50 < sum(tally.statuses.values()) < 150  # a hundred on average, at random
    assert late < 5


def test_a_server_that_is_not_there_is_an_os_error():
    with pytest.raises(OSError, match=r"127\.0\.0\.1"):
        asyncio.run(Connection(1).post("/", b""))


@pytest.mark.slow
def test_each_benchmark_ends_with_a_line(model, tmp_path):
    source, results = tmp_path / "source.txt", tmp_path / "results.jsonl"
    source.write_text("".join(f"{word}\n" for word in WORDS[:40]))
    common = [
        "--model",
        model,
        "--source",
        source,
        "--beam-size",
        "2",
        "--work",
        tmp_path,
        "--results",
        results,
    ]
    short = ["--rounds", "1", "--seconds", "0.5", "--warm-up", "0.2", "--clients", "1,4"]
    runs = {
        "throughput": [*short, "--systems", "transduce,one-at-a-time,fastapi-stub"],
        "overload": ["--seconds", "4", "--probe-seconds", "1", "--", "--max-queue-texts", "1000"],
        "restart": ["--kills", "1", "--clients", "2"],
    }
    for name, own in runs.items():
        command = [sys.executable, "-W", "error", HERE / f"{name}.py", *common, *own]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120)
        assert "Traceback" not in done.stderr, done.stderr[-2000:]
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    speed, overloaded, restarted = lines[:3], lines[3], lines[4]
    assert [line["clients"]["4"]["wrong"] for line in speed] == [0] * 3
    assert all(line["clients"]["4"]["p50_ms"] > 0 for line in speed)
    assert overloaded["kept"]["answers"]
    assert overloaded["kept"]["statuses"]
    assert (restarted["lost"], restarted["wrong"], restarted["starts"]) == (0, 0, 2)
    assert restarted["right"] > 0
