"""The built page over HTTP: types, caching, and no way out of its directory."""

from __future__ import annotations

import gzip
import mimetypes

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from transduce.serve.static_page import CONTENT_SECURITY_POLICY, page_router, read_static

INDEX = '<!doctype html><script type="module" src="./assets/app-B1c2D3e4.js"></script>'
PLAIN = {"accept-encoding": "identity"}


@pytest.fixture
def built(tmp_path):
    """A directory as the build leaves it, and a secret beside it."""
    (tmp_path / "secret.txt").write_text("secret")
    static = tmp_path / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text(INDEX)
    (static / "favicon.svg").write_text("<svg/>")
    (static / ".built-from").write_text("secret hash")
    (static / "assets" / "app-B1c2D3e4.js").write_text("export {}" * 100)
    (static / "assets" / "app-B1c2D3e4.css").write_text("a{}")
    (static / "assets" / "page.js").write_text("export default 1")
    (static / "assets" / "link.js").symlink_to(tmp_path / "secret.txt")
    return static


def client_of(directory):
    app = FastAPI()
    app.include_router(page_router(directory))
    return TestClient(app, headers=PLAIN)


def test_the_page_and_its_files_are_served_with_their_types(built, monkeypatch):
    """Whatever the machine's own table says: Windows may say that JavaScript is text/plain."""
    monkeypatch.setattr(mimetypes, "_db", None)
    mimetypes.add_type("text/plain", ".js")
    mimetypes.add_type("application/x-css", ".css")
    client = client_of(built)
    assert client.get("/").text == INDEX
    types = {path: client.get(path).headers["content-type"] for path in ("/", "/assets/app-B1c2D3e4.js")}
    assert types == {
        "/": "text/html; charset=utf-8",
        "/assets/app-B1c2D3e4.js": "text/javascript; charset=utf-8",
    }
    assert client.get("/assets/app-B1c2D3e4.css").headers["content-type"] == "text/css; charset=utf-8"
    assert client.get("/favicon.svg").headers["content-type"] == "image/svg+xml"


def test_only_what_is_named_by_its_content_is_kept(built):
    client = client_of(built)
    page, named = client.get("/"), client.get("/assets/app-B1c2D3e4.js")
    assert page.headers["cache-control"] == "no-cache"
    assert client.get("/assets/page.js").headers["cache-control"] == "no-cache"
    assert "immutable" in named.headers["cache-control"]
    again = client.get("/", headers={"if-none-match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    (built / "index.html").write_text(INDEX + "<p>new")
    again = client.get("/", headers={"if-none-match": page.headers["etag"]})
    assert (again.status_code, again.text) == (200, INDEX + "<p>new")


def test_what_compresses_is_sent_compressed_to_who_takes_it(built):
    answer = client_of(built).get("/assets/app-B1c2D3e4.js", headers={"accept-encoding": "br, gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) < 100
    assert answer.text == "export {}" * 100
    assert gzip.decompress(read_static(built)["assets/app-B1c2D3e4.js"].zipped).decode() == answer.text


def test_head_tells_the_length_and_sends_nothing(built):
    answer = client_of(built).head("/")
    assert (answer.content, answer.headers["content-length"]) == (b"", str(len(INDEX)))


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../../secret.txt",
        "/assets/%2e%2e/%2e%2e/secret.txt",
        "/assets/..%2f..%2fsecret.txt",
        "/assets/....//secret.txt",
        "/assets//etc/passwd",
        "/assets/%5c..%5c..%5csecret.txt",
        "/assets/link.js",
        "/assets/",
        "/assets",
        "/.built-from",
        "/%00",
        "/index.html/",
    ],
)
def test_no_path_leads_out_of_the_directory(built, path):
    answer = client_of(built).get(path, follow_redirects=False)
    assert answer.status_code in (307, 404)
    assert "secret" not in answer.text


def test_nothing_inline_and_nothing_from_elsewhere_is_allowed(built):
    headers = client_of(built).get("/").headers
    assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "http" not in CONTENT_SECURITY_POLICY
    assert headers["x-content-type-options"] == "nosniff"


def test_a_page_that_was_not_built_is_said_so_plainly(tmp_path):
    answer = client_of(tmp_path).get("/")
    assert answer.status_code == 503
    assert "The page was not built" in answer.text
    assert "make page" in answer.text
    (tmp_path / "not-built.txt").write_text("`npm ci` failed (<b>ENOTFOUND</b>)\n")
    assert "npm ci` failed (&lt;b&gt;ENOTFOUND" in client_of(tmp_path).get("/").text
    assert client_of(tmp_path / "nowhere").get("/").status_code == 503


def test_a_page_built_while_the_server_runs_is_served_next(tmp_path, built):
    client = client_of(tmp_path / "later")
    assert client.get("/").status_code == 503
    built.rename(tmp_path / "later")
    assert client.get("/").text == INDEX
    assert client.get("/assets/app-B1c2D3e4.js").status_code == 200


def test_other_routes_keep_their_own_errors(built):
    client = client_of(built)
    assert client.get("/nowhere").status_code == 404
    assert client.post("/").status_code == 405
