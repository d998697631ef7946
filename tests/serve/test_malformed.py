"""Some hundred malformed requests to every route: each a problem that says what is wrong, none a 500."""

from __future__ import annotations

import json

import pytest

from transduce.serve.keys import KeyFile

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=cut"


def deep(opening, closing, depth=100_000):
    return (opening * depth + closing * depth).encode()


def part(disposition, content=b"x", more=b""):
    return (
        b"--cut\r\nContent-Disposition: "
        + disposition
        + b"\r\n"
        + more
        + b"\r\n"
        + content
        + b"\r\n--cut--\r\n"
    )


FILE = b'form-data; name="file"; filename="a.po"'
# Fields that would be right, each with one that is not: every route refuses them, whatever it is asked.
WRONG_VALUES = [None, 3, True, {}, [[]], [None], {"a": "b"}, "a\0b", "\ud800", ["a", "\udfff"], [1, 2], 1e308]

JSON_BODIES = {
    "nothing": b"",
    "half an object": b"{",
    "half a string": b'{"q": "a',
    "half an escape": b'{"q": "\\u12"}',
    "no value": b'{"q": }',
    "two values": b'{"q": "a"} {"q": "b"}',
    "a comma too many": b'{"q": "a",}',
    "single quotes": b"{'q': 'a'}",
    "no quotes": b"{q: 1}",
    "a comment": b'{"q": "a" /* b */}',
    "a word": b"hello",
    "NaN": b'{"q": NaN, "text": NaN, "file": NaN}',
    "infinity": b'{"q": -Infinity, "text": -Infinity}',
    "a huge number": b'{"q": ' + b"9" * 10_000 + b"}",
    "null": b"null",
    "a number": b"3",
    "a string": b'"a"',
    "a list": b"[]",
    "a list of objects": b'[{"q": "a"}]',
    "an empty object": b"{}",
    "no field that is known": b'{"a": 1, "__proto__": {}, "constructor": []}',
    "deep lists": deep("[", "]"),
    "deep objects": b'{"q":' * 50_000 + b"1" + b"}" * 50_000,
    "deep and open": b"[" * 200_000,
    "no UTF-8": b'{"q": "\xff\xfe"}',
    "half of UTF-8": b'{"q": "\xe2\x82"}',
    "Latin-1": '{"q": "ü", "text": "ü"}'.encode("latin-1"),
    "UTF-16": '{"q": "a"}'.encode("utf-16"),
    "UTF-32": '{"q": "a"}'.encode("utf-32"),
    "a byte-order mark and no object": b"\xef\xbb\xbf[]",
    "a raw line end in a string": b'{"q": "a\nb", "text": "a\nb"}',
    "a raw NUL": b'{"q": "a\0b"}',
    "NULs": bytes(1000),
    "XML": b"<q>a</q>",
    "a form": b"q=a&source=en&target=de",
    "ten megabytes": b'{"q": "' + b"a" * 10_000_000 + b'"}',
    "many keys": json.dumps({f"k{i}": i for i in range(20_000)}).encode(),
    "a long key": json.dumps({"k" * 100_000: 1}).encode(),
    **{
        f"wrong values, {value!r}": json.dumps(
            {"q": value, "text": value, "texts": value, "source": value, "target": value, "file": value}
        ).encode()
        for value in WRONG_VALUES
    },
}
FORM_BODIES = {
    "empty form": b"",
    "no names": b"===&&&=a",
    "no escapes": b"%%%&q%zz=%&%=%",
    "no text": b"source=en&target=de",
    "NUL in a form": b"q=%00&source=en&target=de",
    "a surrogate in a form": b"q=%ed%a0%80%00&source=e&target=d%00",
    "many fields": b"&".join(b"a%d=1" % i for i in range(5_000)),
}
MULTIPART_BODIES = {
    "empty parts": b"",
    "no parts": b"--cut--\r\n",
    "another boundary": b"--other\r\n\r\nx\r\n--other--\r\n",
    "no end": b'--cut\r\nContent-Disposition: form-data; name="q"\r\n\r\nx',
    "no name": part(b"form-data"),
    "no disposition": b"--cut\r\nContent-Type: text/plain\r\n\r\nx\r\n--cut--\r\n",
    "a header without end": b"--cut\r\nContent-Disposition: form-data; name=" + b"a" * 200_000,
    "a file of no known field": part(b'form-data; name="other"; filename="a.po"'),
    "a file for a text": part(b'form-data; name="q"; filename="a.po"'),
    "a text for a file": part(b'form-data; name="file"'),
    "an empty file": part(FILE, b""),
    "a file and no languages": part(FILE, b"\xff\xfe\0"),
    "a file called as a path": part(b'form-data; name="file"; filename="../../etc/passwd"', b'msgid ""'),
    "a file called NUL": part(b'form-data; name="file"; filename="a\0.po"'),
    "a file without a name": part(b'form-data; name="file"; filename=""'),
    "an unknown charset": part(FILE, b"x", b"Content-Type: text/plain; charset=nothing\r\n"),
    "a bad transfer encoding": part(FILE, b"x", b"Content-Transfer-Encoding: base65\r\n"),
    "two files": part(FILE)[:-4] + b"\r\n" + part(FILE),
    "many parts": b"".join(part(b'form-data; name="a%d"' % i)[:-9] + b"\r\n" for i in range(3_000))
    + b"--cut--\r\n",
    "headers that are none": b"--cut\r\n\xff\xfe: \x00\r\n\r\nx\r\n--cut--\r\n",
}
TYPES = [
    "", "text/plain", "text/html", "application/xml", "application/octet-stream", "image/png",
    "application/jsonx", "multipart/form-data", "multipart/form-data; boundary=",
    "multipart/form-data; boundary=" + "a" * 5_000, "multipart/mixed; boundary=cut", "\xff", ";", "/",
    "application/json, text/plain",
]  # fmt: skip

CASES = [
    *((name, JSON, body) for name, body in JSON_BODIES.items()),
    *((name, FORM, body) for name, body in FORM_BODIES.items()),
    *((name, MULTIPART, body) for name, body in MULTIPART_BODIES.items()),
    *((f"type {kind[:40]!r}", kind, b'{"q": "a", "source": "en", "target": "de"}') for kind in TYPES),
]


def posts(client):
    paths = client.get("/openapi.json").json()["paths"]
    return [path for path, methods in paths.items() if "post" in methods]


def is_problem(answer, where):
    assert 400 <= answer.status_code < 500, (where, answer.status_code, answer.text[:300])
    assert answer.headers["content-type"] == "application/problem+json", where
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["type"].startswith("urn:transduce:problem:")
    assert problem["title"]
    assert problem["detail"]
    assert len(answer.content) < 20_000, where  # what came is not sent back whole
    assert "Traceback" not in answer.text
    assert "site-packages" not in answer.text
    return problem


def test_there_are_enough_of_them(client):
    assert len(CASES) * len(posts(client)) >= 200


@pytest.mark.parametrize(("kind", "body"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_malformed_bodies_are_problems_on_every_route(client, kind, body):
    headers = {"content-type": kind.encode("latin-1")} if kind else {}
    for path in posts(client):
        is_problem(client.post(path.replace("{id}", "x"), content=body, headers=headers), path)


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip", "\xff"])
def test_encoded_bodies_are_not_taken_for_plain_ones(client, encoding):
    import gzip

    headers = {"content-type": JSON, "content-encoding": encoding.encode("latin-1")}
    for path in posts(client):
        is_problem(client.post(path, content=gzip.compress(b'{"text": "a"}'), headers=headers), path)


@pytest.mark.parametrize(
    "authorization",
    [
        "", "Bearer", "Bearer ", "Basic dXNlcjpwYXNz", "bearer x", "Bearer " + "a" * 10_000, "Bearer td-",
        "td-x", "Bearer td-aaaaaaaa-" + "a" * 43, "Bearer \xff\xfe", "Bearer {}", "Bearer ../../keys.toml",
        "Bearer a b c",
    ],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
def test_wrong_keys_are_refused_everywhere(served, open_client, tmp_path, authorization):
    file = KeyFile(tmp_path / "keys.toml")
    file.create("a")
    with open_client(models=(served,), keys_file=file.path) as client:
        headers = {"authorization": authorization.encode("latin-1")} if authorization else {}
        for path in posts(client):
            for body in ({"text": "a"}, {"q": "a", "source": "en", "target": "de", "api_key": ["a"]}):
                answer = client.post(path, json=body, headers=headers)
                problem = is_problem(answer, path)
                # A route for files alone looks at the kind of body first.
                assert answer.status_code in (401, 403, 415), (path, problem)
                if answer.status_code == 401:
                    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "PROPFIND", "FOO"])
def test_other_methods_are_problems(client, method):
    for path in [*posts(client), "/languages", "/health", "/metrics"]:
        is_problem(client.request(method, path), path)


@pytest.mark.parametrize(
    "accept", ["", "*/*", "text/html", "x", "\xff", "application/json;q=nan", "," * 5000]
)
def test_what_is_accepted_never_breaks_an_answer(client, accept):
    headers = {"accept": accept.encode("latin-1")}
    for path in posts(client):
        is_problem(client.post(path, content=b"{", headers={**headers, "content-type": JSON}), path)
    assert client.get("/languages", headers=headers).status_code == 200
