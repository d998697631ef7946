"""4. What is named, in three languages: roles, the live region, `lang`, and no word left untranslated."""

from __future__ import annotations

import re
import textwrap

import pytest
from playwright.sync_api import expect

from page.known import Known
from page.reader import LANGUAGES, VIEWS, catalogue

PLACEHOLDER = re.compile(r"\{\w+\}")


def test_catalogues_have_the_same_keys_and_placeholders():
    english = catalogue("en")
    assert len(english) > 100
    for language in LANGUAGES:
        other = catalogue(language)
        assert other.keys() == english.keys()
        for key, text in english.items():
            assert sorted(set(PLACEHOLDER.findall(other[key]))) == sorted(set(PLACEHOLDER.findall(text))), key


def test_taiwan_and_china_have_words_of_their_own():
    """程式/程序, 資料/数据, 記憶體/内存, 權重/权重: a script conversion alone would get some wrong."""
    hant, hans = " ".join(catalogue("zh-Hant").values()), " ".join(catalogue("zh-Hans").values())
    for wrong in ("數據", "內存", "程序", "代碼", "信息", "默認", "屏幕", "網絡"):
        assert wrong not in hant, wrong
    for wrong in ("資料", "記憶體", "程式", "權重", "资料", "记忆体", "程式码"):
        assert wrong not in hans, wrong
    assert "權重" in hant
    assert "权重" in hans


def test_the_switch_sets_the_pages_language(reader):
    page = reader.go("translate")
    for language in LANGUAGES:
        reader.choose(language=language)
        assert page.locator("html").get_attribute("lang") == language
        assert page.locator("nav a").first.inner_text().strip() == catalogue(language)["nav.translate"]
    page.reload()
    reader.settle()
    assert page.locator("html").get_attribute("lang") == LANGUAGES[-1], "the choice is kept"


@pytest.mark.parametrize("locale", ["en-US", "zh-TW", "zh-CN", "fr-FR"])
def test_a_first_visit_speaks_the_readers_language(sit, locale):
    page = sit(locale=locale).go("translate")
    expected = {"zh-TW": "zh-Hant", "zh-CN": "zh-Hans"}.get(locale, "en")
    assert page.locator("html").get_attribute("lang") == expected


@pytest.mark.parametrize("view", VIEWS)
def test_no_key_and_no_hole_is_shown(reader, view):
    """A missing text shows its key (`view.key`), a missing value its `{name}`."""
    page = reader.go(view)
    rooms = {key.split(".")[0] for key in catalogue("en")}
    key = re.compile(rf"\b(?:{'|'.join(sorted(rooms))})\.[a-z][\w-]*\b")
    known = catalogue("en").keys()
    for language in LANGUAGES:
        reader.choose(language=language)
        named = page.evaluate(
            "() => [...document.querySelectorAll('[aria-label], [title], [placeholder], [aria-valuetext]')]"
            ".map((e) => ['aria-label', 'title', 'placeholder', 'aria-valuetext'].map((a) => e.getAttribute(a)).join(' '))"
        )
        code = page.evaluate(
            "() => [...document.querySelectorAll('code, pre, .mono, [data-source]')].map((e) => e.textContent).join(' ')"
        )
        text = page.locator("body").inner_text() + " ".join(named)
        assert [found for found in key.findall(text) if found not in code or found in known] == []
        assert [hole for hole in PLACEHOLDER.findall(text) if hole not in code] == []
        assert "undefined" not in text.replace(code, "")
        assert "NaN" not in text


@pytest.mark.parametrize("language", ["zh-Hant", "zh-Hans"])
@pytest.mark.parametrize("view", VIEWS)
def test_headings_and_buttons_are_translated(reader, view, language):
    """No heading, button, legend or note in Chinese without a Chinese character, names of formats aside."""
    page = reader.go(view)
    reader.choose(language=language)
    kept = {
        "SVG",
        "PNG",
        "CSV",
        "safetensors",
        "transduce",
        "English",
        "Query",
        "Key",
        "Value",
        "BLEU",
        "chrF",
        "NLL",
        "JSONL",
        "Q",
        "K",
        "V",
    }
    shown = page.evaluate(
        "() => [...document.querySelectorAll('h1, h2, h3, button, legend, label > span, nav a, summary, th')]"
        ".filter((e) => e.checkVisibility() && !e.closest('[lang]:not(html)') && !e.closest('[data-name], code, pre, math'))"
        ".filter((e) => !e.querySelector('[lang], bdi, math, code')).map((e) => e.textContent.trim())"
    )
    plain = [t for t in shown if re.search(r"[A-Za-z]{3}", t) and not re.search(r"[\u4e00-\u9fff]", t)]
    assert [t for t in plain if t not in kept and not re.fullmatch(r"[\w.]*[._\d][\w.\[\], ]*", t)] == []


def test_the_live_region_tells_the_numbers_of_the_api(reader, address, real_run):
    """After an arrow key: the same query, key, score and weight as the tensors that the server sends."""
    page = reader.go("attention", kind="cross", layer=1, head=1)
    known = Known(address, real_run / "model", reader.trace_id)
    head = known.numbers.heads["cross", 1, 1]
    grid = page.get_by_role("grid").first
    grid.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    said = f"score {head.scores[1, 1]:.2f}, weight {head.weights[1, 1]:.2f}"
    live = page.locator("figure [aria-live=polite]").first
    live.get_by_text(said).wait_for(state="attached", timeout=5000)
    query, key = known.trace["tgt"][1]["text"].strip(), known.trace["src"][1]["text"].strip()
    assert f"query {query}, key {key}" in live.inner_text()


SANDBOX = [
    """
    - region "Your sentence":
      - textbox "Your sentence"
      - button
      - paragraph
    """,
    """
    - article:
      - heading [level=1]
      - group "Attention":
        - radio "Encoder self-attention"
        - radio "Decoder self-attention"
        - radio "Cross-attention" [checked]
      - group "Layer":
        - radio "1"
        - radio "2" [checked]
      - group "Head":
        - radio "1" [checked]
        - radio "2"
        - radio "3"
        - radio "4"
    """,
    """
    - slider /Temperature/
    """,
    """
    - figure:
      - grid /Cross-attention, layer 2, head 1/:
        - row:
          - gridcell /query .*, key .*, score .*, weight/
    """,
    """
    - toolbar "All heads":
      - button /Layer 2, head 1/ [pressed]
      - button /Layer 2, head 2/
    """,
]


@pytest.mark.parametrize("part", SANDBOX)
def test_a_screen_reader_finds_the_sandbox(reader, part):
    """Roles and names, in their order within each part; what else there is, is free."""
    page = reader.go("attention", kind="cross", layer=1, head=0)
    expect(page.locator("main")).to_match_aria_snapshot(textwrap.dedent(part))
