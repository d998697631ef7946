"""Requests to translate that are wrong in fields or bytes: a problem with the right 4xx, never a 500."""

from __future__ import annotations

import json
import random

import pytest

from problem_checks import is_problem
from transduce.serve.schemas import TranslateRequest

URL = "/api/v1/translate"
JSON = {"content-type": "application/json"}
FIELDS = list(TranslateRequest.model_fields)

WRONG_VALUES = [
    0, -1, 10**30, 1.5, -0.0, 1e308, True, "", "x", "2", "\0",
    "\ud800", [], [1], [None], [[]], ["\udfff"],
    {}, {"a": 1}, {"": ""}, {"\ud800": "a"}, {"a": "\0"}, [{}], "a" * 30_000,
]  # fmt: skip

NO_JSON = [
    b"{", b"}", b"[", b'{"text"', b'{"text":', b'{"text":"one"', b'{"text":"one",}', b"{'text':'one'}",
    b"nul",
    b"text=one", b"<text>one</text>", b"\xff\xfe\x00", b"\xef\xbb\xbf{", b'{"text":"\xff"}',
    b'{"text":"a\nb"}', b'{"text":"\\x"}', b'{"text":"\\ud8"}', b'{"text":01}', b'{"text":+1}',
    b'{"text":.5}',
    b'{"text":"one"} x', b'{"text":"one"}{"text":"two"}', b"[" * 5000, b"[" * 200_000, b'{"a":' * 5000,
    b'{"text":"one","beam_size":' + b"9" * 5000 + b"}", b"\x00", b"{}\x00", b"//", b"--",
    b"\x1f\x8b\x08\x00abc",
]  # fmt: skip

WRONG_BODIES = [
    b"", b'{"text":"\xed\xa0\x80"}', b"null", b"true", b"1", b'"one"', b"[]", b"[1]", b'["one"]', b"{}",
    b'{"texts":null}', b'{"text":null}',
    b'{"text":"one","texts":[]}', b'{"text":"one","alpha":NaN}', b'{"text":"one","alpha":-Infinity}',
    b'{"text":"one","temperature":1e999}', b'{"text":"one","text":5}',
    b'{"text":"one","prefixes":["a"]}',
    b'{"texts":["one"],"prefix":"a"}', b'{"texts":["one","two"],"prefixes":["a"]}',
    b'{"text":"one","protect":["nothing"]}', b'{"text":"one","method":"magic"}',
    b'{"text":"one","top_p":2}',
    b'{"text":"one","n_best":3,"beam_size":2}', b'{"text":"one","beam_size":17}',
    b'{"text":"one","glossary":{"":"a"}}',
    b'{"text":"one","glossary":{"a":" "}}', b'{"text":"one","source":"\\u0000"}',
    b'{"text":"one","__proto__":{}}',
]  # fmt: skip

PATHS = [
    "/nowhere", "/api", "/api/v1", "/api/v1/", "/api/v1/translate/", "/api/v2/translate",
    "/api/v1/models/x",
    "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/static/../../../etc/passwd",
    "/%00", "/%ff%fe", "/a" * 500, "/health%0d%0aX: y", "/health/", "/HEALTH",
    "/ready?x=" + "y" * 3000,
    "/.git/config", "/api/v1/translate;x", "/%E2%80%AE", "/~root", "/C:%5Cwindows", "/api/v1/models%20",
]  # fmt: skip

METHODS = ["get", "put", "patch", "delete", "options", "head"]


def is_right(response, *statuses):
    assert response.status_code in statuses, (response.status_code, response.text[:300])
    if response.request.method != "HEAD":
        problem = is_problem(response, response.status_code)
        assert "Traceback" not in response.text
        assert "/tmp" not in response.text
        assert len(response.text) < 5000
        assert json.dumps(problem)


@pytest.mark.parametrize("field", FIELDS)
def test_wrong_values(client, field):
    """Each value that the field's own type does not allow; those it allows are answered."""
    for value in WRONG_VALUES:
        given = {"text": "one", field: value}
        if field == "texts":
            del given["text"]
        body = json.dumps(given).encode()
        response = client.post(URL, content=body, headers=JSON)
        if response.status_code != 200:
            is_right(response, 404, 413, 422)


@pytest.mark.parametrize("body", NO_JSON, ids=lambda body: repr(body[:25]))
def test_no_json(client, body):
    is_right(client.post(URL, content=body, headers=JSON), 400)


@pytest.mark.parametrize("body", WRONG_BODIES, ids=repr)
def test_wrong_bodies(client, body):
    is_right(client.post(URL, content=body, headers=JSON), 404, 422)


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/xml", "multipart/form-data", "x", "a/b;c=d"]
)
def test_other_content_types(client, content_type):
    headers = {"content-type": content_type} if content_type else {}
    is_right(client.post(URL, content=b'{"text":"one"}', headers=headers), 415)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:25])
def test_other_paths(client, path):
    response = client.get(path, follow_redirects=False)
    if not path.startswith("/ready?") and response.request.url.path != "/":  # that is the page's
        is_right(response, 404)


@pytest.mark.parametrize("method", METHODS)
def test_other_methods(client, method):
    is_right(getattr(client, method)(URL), 405)


def test_a_large_body(client):
    is_right(client.post(URL, content=b'{"text":"' + b"a" * 10_000_000 + b'"}', headers=JSON), 413)


def test_wrong_json_by_chance(client):
    """Correct requests with a few bytes changed: answered or refused, never broken."""
    rng = random.Random(0)
    good = json.dumps(
        {"text": "one two", "beam_size": 2, "glossary": None, "alignment": True, "source": "en"}
    ).encode()
    for _ in range(300):
        body = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(body))
            rng.choice([lambda b, p: b.__delitem__(p), lambda b, p: b.insert(p, rng.randrange(256)),
                        lambda b, p: b.__setitem__(p, rng.randrange(256))])(body, place)  # fmt: skip
        response = client.post(URL, content=bytes(body), headers=JSON)
        if response.status_code != 200:
            is_right(response, 400, 404, 413, 422)


def test_there_are_hundreds():
    fixed = len(FIELDS) * len(WRONG_VALUES) + len(NO_JSON) + len(WRONG_BODIES) + len(PATHS) + len(METHODS) + 7
    assert fixed > 400
