"""The API, version 1, as a client sees it."""

from __future__ import annotations

import pytest

import transduce
from served_models import WORDS
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


def is_problem(response, status, kind=None):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert problem["type"].startswith("urn:transduce:problem:")
    if kind:
        assert problem["type"].endswith(kind)
    return problem
