"""The API, version 1, as a client sees it."""

from __future__ import annotations

import json

import pytest

import transduce
from problem_checks import is_problem
from served_models import WORDS
from transduce.errors import ModelError
from transduce.serve.lanes import Lane
from transduce.serve.schemas import Translated

URL = "/api/v1/translate"


@pytest.fixture(scope="module")
def offline(served):
    return transduce.load(served)


def test_one_text_and_many(client, offline):
    texts = [" ".join(WORDS[i : i + 4]) for i in range(5)]
    expected = [t.text for t in offline.translate(texts)]
    many = client.post(URL, json={"texts": texts})
    assert many.status_code == 200
    assert [t["text"] for t in many.json()["translations"]] == expected
    one = client.post(URL, json={"text": texts[0]}).json()["translations"]
    assert [t["text"] for t in one] == expected[:1]
    for translation in many.json()["translations"]:
        Translated.model_validate(translation)


@pytest.mark.parametrize("path", [URL, "/translate"])
def test_a_request_takes_no_thread_of_the_pool(client, monkeypatch, path):
    """A dependency that is no coroutine is called in a thread: 0.2 of 0.9 ms of a request, for nothing."""

    async def called_in_a_thread(call, *_, **__):
        raise AssertionError(f"{call} was called in a thread")

    monkeypatch.setattr("anyio.to_thread.run_sync", called_in_a_thread)
    asked = {"text": WORDS[0]} if path == URL else {"q": WORDS[0], "source": "en", "target": "de"}
    assert client.post(path, json=asked).status_code == 200


def test_where_the_queue_is_full_a_request_is_refused_before_it_is_looked_at(client, monkeypatch):
    monkeypatch.setattr("transduce.serve.batching.Batcher.waiting_jobs", 1000)
    for body in ({"text": "one"}, {"what": "is not even looked at"}):
        answer = client.post(URL, json=body)
        problem = is_problem(answer, 429, "queue-full")
        assert problem["max_queue_requests"] == 128
        assert answer.headers["connection"] == "close"
    assert client.get("/health").status_code == 200


def test_health_and_models(client):
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"status": "ready"}
    found = client.get("/api/v1/models").json()
    assert [(m["source"], m["target"]) for m in found["models"]] == [("en", "de")]
    assert found["limits"]["max_texts"] == 1000


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("get", "/nowhere", 404, "not-found"),
        ("get", "/../../etc/passwd", 404, "not-found"),
        ("get", URL, 405, "method-not-allowed"),
        ("delete", "/health", 405, "method-not-allowed"),
    ],
)
def test_wrong_addresses_are_problems(client, method, path, status, kind):
    is_problem(getattr(client, method)(path), status, kind)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 422, "either `text`"),
        ({"text": "one", "texts": ["two"]}, 422, "either `text`"),
        ({"text": "one", "beamsize": 2}, 422, "did you mean beam_size?"),
        ({"text": "one", "beam_size": "2"}, 422, "#/beam_size"),
        ({"text": "one", "beam_size": 0}, 422, "#/beam_size"),
        ({"text": 1}, 422, "#/text"),
        ({"texts": ["one", None]}, 422, "#/texts/1"),
        ({"text": "a\0b"}, 422, "NUL character stands at 1"),
        ({"text": "one", "n_best": 5, "beam_size": 2}, 422, "n_best (5) is larger than beam_size (2)"),
        ({"text": "one", "source": "fr"}, 404, "fr"),
        ([], 422, "#"),
    ],
    ids=str,
)
def test_wrong_fields_are_named(client, body, status, words):
    assert words in is_problem(client.post(URL, json=body), status)["detail"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b'{"text": "a', 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 400),
        (b'{"text": "\\ud800"}', 422),
        (b'{"text": "one", "alpha": NaN}', 422),
        (b'{"text": "one", "alpha": 1e999}', 422),
        (b'{"text": "one", "beam_size": ' + b"9" * 5000 + b"}", 400),
        (b"", 422),
        (b"null", 422),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_cannot_be_read_is_a_problem(client, body, status):
    is_problem(client.post(URL, content=body, headers={"content-type": "application/json"}), status)


def events(response):
    """Name and data of each server-sent event."""
    assert response.headers["content-type"].startswith("text/event-stream")
    found = [block.split("\n", 1) for block in response.text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in found]


def test_events_bring_each_text_and_then_that_all_are_there(client, offline):
    texts = [" ".join(WORDS[i : i + 4]) for i in range(9)] + ["", "one\ntwo\u2028three"]
    found = events(client.post(URL, json={"texts": texts}, headers={"accept": "text/event-stream"}))
    assert found[-1] == ("done", {"texts": len(texts)})
    assert {name for name, _ in found[:-1]} == {"translation"}
    by_index = {data["index"]: data["text"] for _, data in found[:-1]}
    assert [by_index[i] for i in range(len(texts))] == [t.text for t in offline.translate(texts)]
    assert events(client.post(URL, json={"texts": []}, headers={"accept": "text/event-stream"})) == [
        ("done", {"texts": 0})
    ]
    wrong = client.post(URL, json={"texts": ["a"] * 1001}, headers={"accept": "text/event-stream"})
    assert "1001 texts in one request, but at most 1000" in is_problem(wrong, 413)["detail"]


def test_a_stream_that_breaks_says_so(served, open_client, monkeypatch):
    with open_client(models=(served,), batch_tokens=8) as client:
        original, calls = Lane.run, []

        def failing(self, pieces, crowded):
            calls.append(pieces)
            if len(calls) == 6:  # two at a time: some texts are whole by then
                raise ModelError(f"{served}/ct2 is gone")
            return original(self, pieces, crowded)

        monkeypatch.setattr(Lane, "run", failing)
        body = {"texts": ["one two three"] * 9}
        found = events(client.post(URL, json=body, headers={"accept": "text/event-stream"}))
    name, problem = found[-1]
    assert name == "error"
    assert problem["status"] == 503
    assert str(served) not in json.dumps(problem)
    assert 1 <= len(found) - 1 < 9


def test_options_reach_the_search(client, offline):
    text = " ".join(WORDS[:5])
    for given, own in [
        ({"beam_size": 1}, {}),
        ({"beam_size": 4, "n_best": 3}, {}),
        ({"n_best": 3}, {}),
        ({"beam_size": 4, "length_penalty": "power", "alpha": 2.0}, {}),
        ({"method": "sample", "seed": 3, "temperature": 3.0, "top_k": 5, "top_p": 0.9}, {}),
        ({"prefix": "das"}, {"prefixes": ["das"]}),
        ({"alignment": True, "details": True}, {}),
    ]:
        answer = client.post(URL, json={"text": text, **given})
        assert answer.status_code == 200, answer.text
        arguments = {"details": False, **(own or given)}
        (expected,) = offline.translate([text], **arguments)
        (found,) = answer.json()["translations"]
        assert found["tokens"] == list(expected.tokens), given
        assert found.keys() == expected.to_dict().keys()
        assert len(found["token_confidence"]) == len(expected.token_confidence)
        assert "details" not in given or len(found["word_confidence"]) == len(found["words"]) > 0
        assert ("alignment" in found) == ("alignment" in given)
        assert len(found.get("alternatives", ())) == given.get("n_best", 1) - 1


def test_what_the_engine_has_not_is_said(client):
    for given in ({"glossary": {"light": "Licht"}}, {"protect": True}, {"protect": ["url"]}):
        problem = is_problem(client.post(URL, json={"text": "one", **given}), 422, "cannot-follow")
        assert "use the torch engine" in problem["detail"]


def test_a_mistake_of_ours_is_a_problem_and_in_the_log(served, open_client, monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("secret")

    with open_client(models=(served,)) as client:
        monkeypatch.setattr(Lane, "run", broken)
        answer = client.post(URL, json={"text": "one"})
        problem = is_problem(answer, 500, "internal-error")
        assert "secret" not in json.dumps(problem)
        assert "Traceback" in caplog.text
        counted = client.get("/metrics").text
        assert 'transduce_requests_total{method="POST",route="/api/v1/translate",status="500"} 1.0' in counted
        monkeypatch.undo()
        assert client.post(URL, json={"text": "one"}).status_code == 200
        assert answer.headers["x-request-id"]


def test_metrics_count(client):
    def read():
        lines = [
            line.rpartition(" ") for line in client.get("/metrics").text.split("\n") if line[:1] not in "#"
        ]
        return {name: float(value) for name, _, value in lines}

    before = read()
    client.post(URL, json={"texts": ["one", "two three"]})
    client.get("/nowhere/1")
    client.get("/nowhere/2")
    after = read()

    def grown(name):
        return after[name] - before.get(name, 0)

    assert grown("transduce_texts_total") == 2
    assert grown("transduce_source_tokens_total") > 2
    assert grown("transduce_batch_pieces_sum") == 2
    assert grown('transduce_requests_total{method="POST",route="/api/v1/translate",status="200"}') == 1
    assert grown('transduce_requests_total{method="GET",route="other",status="404"}') == 2
    assert grown('transduce_request_seconds_count{route="/api/v1/translate"}') == 1
    assert after["transduce_resident_bytes"] > 1e6
    assert after["transduce_queue_pieces"] == after["transduce_queue_tokens"] == 0
    assert after["transduce_models_loaded"] == 1


def test_openapi_tells_everything(client):
    document = client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            assert route["summary"], path
            assert route["description"], path
            for status, answer in route["responses"].items():
                if int(status) >= 400:
                    assert list(answer["content"]) == ["application/problem+json"], (path, method, status)
    translate = document["paths"][URL]["post"]
    assert {"200", "400", "404", "408", "413", "415", "422", "429", "500", "503"} <= translate[
        "responses"
    ].keys()
    assert {"application/json", "text/event-stream"} <= translate["responses"]["200"]["content"].keys()
    request = document["components"]["schemas"]["TranslateRequest"]
    assert request["additionalProperties"] is False
    for example in request["examples"]:
        assert client.post(URL, json=example).status_code == 200


def test_without_a_model_an_untrained_one_is_shown_and_translating_says_how_to_get_one(open_client):
    with open_client() as client:
        shown = client.get("/api/v1/model").json()
        assert (shown["available"], shown["trained"]) == (True, False)
        assert client.post("/api/v1/traces", json={"text": "one two"}).status_code == 201
        answer = client.post("/api/v1/translate", json={"text": "one two"})
        assert answer.status_code == 404
        assert "no model is served: start with one" in answer.json()["detail"]
