"""7. Any text: Chinese, Arabic, emoji, bytes, one token, none, the longest and one more."""

from __future__ import annotations

import pytest

from page.known import fetch
from page.reader import VIEWS
from page.test_mobile import SIDEWAYS

TEXTS = {
    "chinese": "門是開著的，請把燈關掉。",
    "mixed": "The 感測器 in 客廳 is 開著。",
    "arabic": "الباب مفتوح، أغلق الضوء.",
    "emoji": "The light is on 🙂👩‍👩‍👧‍👦🏳️‍🌈!",
    "bytes": "爿 and 𠮷 and ᛗ",
    "one token": "on",
    "markup": "<b>Turn</b> & \"off\" 'it' <script>alert(1)</script>",
    "long word": "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen" * 3,
}
WITH_SENTENCE = [view for view in VIEWS if view not in ("positions", "training", "code")]
# What a person must never see of a tokenizer: the mark of a space, a raw byte, a broken character.
BROKEN = """
() => {
  const code = [...document.querySelectorAll('code, pre, .mono, [data-raw]')];
  const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node; (node = walker.nextNode());) {
    if (/\\uFFFD|<0x[0-9A-F]{2}>|\\u2581/.test(node.data) && !code.some((e) => e.contains(node))) found.push(node.data.slice(0, 80));
  }
  for (const e of document.querySelectorAll('main [aria-label]')) {
    if (/\\uFFFD|<0x[0-9A-F]{2}>|\\u2581/.test(e.getAttribute('aria-label'))) found.push(e.getAttribute('aria-label'));
  }
  return found;
}
"""


@pytest.mark.parametrize("name", TEXTS)
def test_every_view_shows_any_text_whole(sit, name):
    reader = sit(width=390)
    reader.go("translate")
    reader.write(TEXTS[name])
    for view in WITH_SENTENCE:
        reader.move(view)
        page = reader.page
        assert page.get_by_role("alert").count() == 0, (
            f"{view}: {page.get_by_role('alert').all_inner_texts()}"
        )
        assert page.evaluate(BROKEN) == [], view
        sideways = page.evaluate(SIDEWAYS)
        assert (sideways["page"], sideways["out"]) == (0, []), view
    assert page.evaluate("typeof window.alerted") == "undefined"


def test_pieces_of_one_character_stand_together(reader):
    """爿 is spelt in bytes: one label, with their number, in each place."""
    page = reader.go("attention", kind="enc_self", layer=0, head=0)
    reader.write("爿 on")
    trace = fetch(reader.address, f"traces/{reader.trace_id}")
    first = next(token for token in trace["src"] if token["kind"] == "byte")
    assert first["text"].strip() == "爿"
    assert first["bytes"]["count"] == 3
    labels = page.locator("main figure").first.inner_text()
    assert "爿" in labels
    reader.move("story")
    assert "3" in page.locator("main").get_by_text("爿").first.locator("xpath=ancestor::li[1]").inner_text()


def test_right_to_left_text_keeps_its_order(reader):
    """Each piece in a <bdi>; the sentence from right to left; rows and columns in the order of the tokens."""
    page = reader.go("translate")
    reader.write(TEXTS["arabic"])
    trace = fetch(reader.address, f"traces/{reader.trace_id}")
    reader.move("attention", trace=trace["id"], kind="enc_self", layer=0, head=0)
    tokens = [token["text"].strip() for token in trace["src"] if not token["bytes"]]
    tops = page.locator("main figure").first.locator("bdi").all_inner_texts()
    rows = [text for text in tops if text.strip() in tokens]
    assert len(rows) >= len(set(tokens))


def test_the_empty_sentence_asks_for_one(reader):
    page = reader.go("translate")
    button = page.locator("form button[type=submit]")
    page.locator("#sentence").fill("   ")
    assert button.is_disabled()


def test_the_longest_text_is_shown_and_one_token_more_is_refused_in_words(sit):
    """256 source tokens besides </s>; the number stands in the message."""
    reader = sit(allow=("413", "422"))
    page = reader.go("attention", kind="enc_self", layer=0, head=0)
    limit = fetch(reader.address, "model")["limits"]["source_tokens"]
    reader.write("on " * limit)
    grid = page.get_by_role("grid").first
    assert int(grid.get_attribute("aria-colcount")) == limit + 1
    reader.write("on " * (limit + 1))
    alert = page.get_by_role("alert")
    assert alert.count() == 1
    assert str(limit) in alert.inner_text()
    reader.write("on")
    assert page.get_by_role("alert").count() == 0
    assert int(page.get_by_role("grid").first.get_attribute("aria-colcount")) == 2
