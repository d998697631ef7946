"""`POST /api/v1/translate`: what a model cannot write comes back, in one answer and as events."""

from __future__ import annotations

import json

import pytest

URL = "/api/v1/translate"


def translated(client, text, **asked):
    answer = client.post(URL, json={"text": text, **asked})
    assert answer.status_code == 200, answer.text
    return answer.json()["translations"][0]


@pytest.mark.parametrize(
    "text",
    ["turn on the light 😀", "😀 turn on 👩‍👩‍👧‍👦 the light", "the light привет is broken",
     "😀", "привет", "🇩🇪\n\n\t🇩🇪", "turn on\r\n\n\tthe light 👍🏽!\n", "\n"],
)  # fmt: skip
def test_emoji_scripts_and_lines_survive(client, text):
    found = translated(client, text)
    for kept in ("😀", "👩‍👩‍👧‍👦", "привет", "🇩🇪", "👍🏽"):
        assert found["text"].count(kept) == text.count(kept)
    assert [c for c in found["text"] if c in "\r\n\t"] == [c for c in text if c in "\r\n\t"]
    assert "alignment" not in found


def test_what_holds_none_of_it_is_translated_as_ever(client, served):
    import transduce

    (offline,) = transduce.load(served).translate("turn on the light", details=False)
    assert translated(client, "turn on the light") == offline.to_dict()


def test_html_keeps_its_tags(client):
    page = '<p class="a">turn <b>on</b> the light</p>\n<pre>\tx</pre>&amp;<img src=x>'
    found = translated(client, page, format="html")
    assert found["text"].startswith('<p class="a">')
    assert found["text"].endswith("</p>\n<pre>\tx</pre>&amp;<img src=x>")
    assert found["text"].count("<b>") == found["text"].count("</b>") == 1
    assert found["tokens"]
    assert translated(client, "<hr>", format="html")["text"] == "<hr>"


def test_alternatives_and_alignment_come_along(client):
    found = translated(client, "turn on the light 😀", n_best=2, beam_size=2, alignment=True)
    assert all("😀" in one["text"] for one in found["alternatives"])
    assert found["alignment"]


def test_events_tell_the_same(client):
    texts = ["turn on the light 😀", "the light", "привет"]
    answer = client.post(URL, json={"texts": texts}, headers={"accept": "text/event-stream"})
    events = [json.loads(line[6:]) for line in answer.text.split("\n") if line.startswith("data: ")]
    found = {event["index"]: event["text"] for event in events if "index" in event}
    assert found == {i: translated(client, text)["text"] for i, text in enumerate(texts)}


def test_other_formats_are_refused(client):
    assert client.post(URL, json={"text": "a", "format": "pdf"}).status_code == 422
