"""LibreTranslate's clients, unchanged, and its API as they read it."""

from __future__ import annotations

import urllib.error
import urllib.request

import polib
import pytest
from libretranslate_aio import LibreTranslate
from libretranslate_aio.exceptions import ForbiddenError, LibreTranslateError, RateLimitError
from libretranslatepy import LibreTranslateAPI

import transduce
from live_server import live_server
from served_models import WORDS, write_model
from transduce.serve.keys import KeyFile

TEXT = "turn on the light, please"
ENGLISH = "The weather was so good that we walked home along the river."
FRENCH = "Il faisait si beau que nous sommes rentrés à pied le long de la rivière."


@pytest.fixture(scope="module")
def address(served):
    with live_server(served) as server:
        yield server.url


@pytest.fixture(scope="module")
def offline(served):
    return transduce.load(served)


# --- Two clients from the package index -------------------------------------------------------------


def test_libretranslatepy_translates_detects_and_lists(address, offline):
    client = LibreTranslateAPI(address)
    assert client.translate(TEXT, "en", "de") == offline.translate(TEXT)[0].text
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]
    (found,) = client.detect(ENGLISH)
    assert found["language"] == "en"
    assert 90 < found["confidence"] <= 100
    assert client.detect("x9")[0]["confidence"] == 0.0  # nobody can tell


def test_libretranslatepy_prints_what_was_wrong(address):
    with pytest.raises(urllib.error.HTTPError) as caught:
        LibreTranslateAPI(address).translate(TEXT, "en", "fr")
    assert caught.value.code == 404
    with caught.value as answer:
        assert b'"error":"no model translates' in answer.read()


def test_libretranslate_aio_translates_one_and_many(address, offline):
    words = [word for word in WORDS if word.isalpha()]
    texts = [" ".join(words[i : i + 5]) for i in range(6)]
    with LibreTranslate(address) as client:
        one = client.translate(TEXT, "en", "de")
        assert one.translated_text == offline.translate(TEXT)[0].text
        assert one.detected_language is None
        many = client.translate(texts, "en", "de")
        assert many.translated_text == [t.text for t in offline.translate(texts)]
        found = client.translate(ENGLISH, "auto", "de")
        assert found.detected_language.language == "en"
        assert found.detected_language.confidence > 90
        found = client.translate([ENGLISH, "Yes."], "auto", "de")
        assert [d.language for d in found.detected_language] == ["en", "en"]
        assert client.detect(ENGLISH)[0].language == "en"
        assert [language.code for language in client.languages()] == ["en", "de"]
        settings = client.frontend_settings()
        assert not settings.key_required
        assert not settings.suggestions
        assert ".po" in settings.supported_files_format
        assert (settings.language.source.code, settings.language.target.name) == ("en", "German")
        assert client.health()


def test_libretranslate_aio_gets_alternatives(address):
    with LibreTranslate(address) as client:
        found = client.translate(TEXT, "en", "de", alternatives=3)
        assert 1 <= len(found.alternatives) <= 3
        assert len({found.translated_text, *found.alternatives}) == 1 + len(found.alternatives)


def test_libretranslate_aio_translates_html_and_keeps_its_tags(address):
    page = '<p class="green">turn <b>on</b> the light <img src="x.png"> &amp; go</p>\n<pre>one\n\ttwo</pre>'
    with LibreTranslate(address) as client:
        found = client.translate(page, "en", "de", format="html").translated_text
    assert found.startswith('<p class="green">')
    assert found.endswith("</p>\n<pre>one\n\ttwo</pre>")
    for tag in ("<b>", "</b>", '<img src="x.png">'):
        assert found.count(tag) == 1


def test_libretranslate_aio_translates_a_file(address, tmp_path):
    (tmp_path / "app.po").write_text('msgid "the light is on %(n)d {user}"\nmsgstr ""\n')
    with LibreTranslate(address) as client:
        url = client.translate_file(tmp_path / "app.po", "en", "de").translated_file_url
        assert url.startswith(f"{address}/download_file/")
        assert url.endswith(".app.po")
        with urllib.request.urlopen(url) as answer:
            assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''app.po"
            entry = polib.pofile(answer.read().decode())[0]
    assert entry.msgstr.count("%(n)d") == entry.msgstr.count("{user}") == 1


def test_libretranslate_aio_tells_errors_by_their_kind(address):
    with LibreTranslate(address) as client:
        with pytest.raises(LibreTranslateError, match="not clearly in any language"):
            client.translate(FRENCH, "auto", "de")
        with pytest.raises(LibreTranslateError, match="no model translates into 'fr'"):
            client.translate(ENGLISH, "auto", "fr")
        with pytest.raises(LibreTranslateError):
            client.suggest("a", "b", "en", "de")


def test_keys_and_limits_reach_the_clients(served, tmp_path):
    file = KeyFile(tmp_path / "keys.toml")
    key = file.create("client", requests_per_minute=3)
    with live_server(served, "--keys", file.path) as server:
        address = server.url
        assert LibreTranslateAPI(address).languages()  # what there is may be known
        with pytest.raises(urllib.error.HTTPError, match="401"):
            LibreTranslateAPI(address).translate(TEXT, "en", "de")
        assert LibreTranslateAPI(address, key).translate(TEXT, "en", "de")
        with LibreTranslate(address, api_key=key) as client:
            assert client.frontend_settings().key_required
            assert client.translate(TEXT, "en", "de").translated_text
            assert client.detect(ENGLISH)
            with pytest.raises(RateLimitError, match="3 requests a minute"):
                client.translate(TEXT, "en", "de")
        with LibreTranslate(address, api_key=key[:-1] + "_") as client, pytest.raises(ForbiddenError):
            client.translate(TEXT, "en", "de")


# --- The API itself -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["json", "data"])
def test_json_and_forms_say_the_same(client, how):
    asked = {"q": TEXT, "source": "en", "target": "de", "format": "text", "more": "passed over"}
    answer = client.post("/translate", **{how: asked})
    assert answer.status_code == 200
    assert list(answer.json()) == ["translatedText"]


def test_a_text_keeps_its_lines_spaces_emoji_scripts_and_placeholders(client):
    text = "  the light is on 😀.\n\n\tthe switch\tis off: {name}, %d\r\n— привет мир —\n👩‍👩‍👧‍👦🇩🇪\n\n"
    found = client.post("/translate", json={"q": text, "source": "en", "target": "de"}).json()[
        "translatedText"
    ]
    assert [c for c in found if c in "\n\r\t"] == [c for c in text if c in "\n\r\t"]
    assert found.startswith("  ")
    assert found.endswith("\n👩‍👩‍👧‍👦🇩🇪\n\n")
    for kept in ("😀", "{name}", "%d", "привет мир", "—"):
        assert kept in found
    blank = " \n\t\u2028 "
    assert client.post("/translate", json={"q": blank, "source": "en", "target": "de"}).json() == {
        "translatedText": blank
    }


def test_several_languages_in_one_request(tmp_path, served, open_client):
    other = write_model(tmp_path / "fr-de", source="fr", target="de", seed=3)
    with open_client(models=(served, other)) as client:
        asked = {"q": [ENGLISH, FRENCH, ENGLISH], "source": "auto", "target": "de"}
        answer = client.post("/translate", json=asked).json()
        assert [d["language"] for d in answer["detectedLanguage"]] == ["en", "fr", "en"]
        assert answer["translatedText"][0] == answer["translatedText"][2]
        problem = client.post("/translate", json={**asked, "q": "ok"}).json()
        assert problem["type"].endswith("language-unclear")
        assert problem["error"] == problem["detail"]
        assert problem["languages"] == ["en", "fr"]


def test_a_short_text_is_taken_for_the_only_language_there_is(client):
    answer = client.post("/translate", json={"q": "ok", "source": "auto", "target": "de"}).json()
    assert answer["detectedLanguage"]["language"] == "en"
    assert answer["detectedLanguage"]["confidence"] < 50


@pytest.mark.parametrize(
    ("asked", "status", "words"),
    [
        ({}, 422, "#/q: Field required"),
        ({"q": 1, "source": "en", "target": "de"}, 422, "#/q"),
        ({"q": "a", "source": "en"}, 422, "#/target"),
        ({"q": "a", "source": "en", "target": "de", "format": "pdf"}, 422, "#/format"),
        ({"q": "a", "source": "en", "target": "de", "alternatives": 99}, 422, "#/alternatives"),
        ({"q": "a\0", "source": "en", "target": "de"}, 422, "NUL"),
        ({"q": ["a"] * 1001, "source": "en", "target": "de"}, 413, "1001 texts"),
        ({"q": "a", "source": "en", "target": "en"}, 404, "no model translates en → en"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_wrong_requests_are_problems_with_an_error(client, asked, status, words):
    answer = client.post("/translate", json=asked)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert words in answer.json()["error"]


def test_downloads_are_found_by_their_id_only(client):
    for name in ("x", "x.app.po", "%2e%2e%2fkeys.toml", "..%5c..%5ca", "%00", "a" * 5000):
        answer = client.get(f"/download_file/{name}")
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"
