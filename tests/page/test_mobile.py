"""9. On a phone: nothing sideways, targets large enough, a tap pins, zoom allowed, text twice as large."""

from __future__ import annotations

import pytest

from page.known import SENTENCES
from page.reader import LANGUAGES, VIEWS

SIDEWAYS = """
() => {
  const wide = document.documentElement.clientWidth;
  const scrolls = (e) => {
    for (let at = e.parentElement; at; at = at.parentElement) {
      if (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(at).overflowX)) return true;
    }
    return false;
  };
  return {
    page: document.documentElement.scrollWidth - wide,
    out: [...document.querySelectorAll('body *')].filter((e) => e.checkVisibility() && !e.closest('svg, .hidden') && !scrolls(e))
      .filter((e) => e.getBoundingClientRect().right > wide + 1 || e.getBoundingClientRect().left < -1)
      .map((e) => e.outerHTML.slice(0, 120)),
  };
}
"""
# WCAG 2.5.8: 24 by 24 pixels, links within a sentence and the cells of a grid (which keys reach) excepted;
# a small target passes where a circle of 24 pixels around its middle touches no other.
SMALL = """
() => {
  const found = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [role=button]')]
    .filter((e) => e.checkVisibility() && !e.disabled && !e.closest('.hidden') && !(e.tagName === 'A' && e.closest('p, li')))
    .map((e) => ({ e, box: (e.closest('label') ?? e).getBoundingClientRect() }))
    .filter(({ box }) => box.width > 1 && box.bottom > 0);
  const middle = (b) => [(b.left + b.right) / 2, (b.top + b.bottom) / 2];
  const near = (b, [x, y]) =>
    Math.hypot(Math.max(b.left - x, 0, x - b.right), Math.max(b.top - y, 0, y - b.bottom)) < 12;
  return found.filter(({ box }) => Math.round(box.width) < 24 || Math.round(box.height) < 24)
    .filter(({ e, box }) => found.some((other) => other.e !== e && !other.e.contains(e) && near(other.box, middle(box))))
    .map(({ e, box }) => `${Math.round(box.width)}×${Math.round(box.height)} ${e.outerHTML.slice(0, 120)}`);
}
"""

# WCAG 2.1.1: what scrolls sideways is a stop of the keyboard, or holds one.
OUT_OF_REACH = """
() => [...document.querySelectorAll('body *')]
  .filter((e) => e.checkVisibility() && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX))
  .filter((e) => e.scrollWidth > e.clientWidth + 1)
  .filter((e) => e.tabIndex < 0 && ![...e.querySelectorAll('*')].some((inner) => inner.tabIndex >= 0 && !inner.disabled))
  .map((e) => e.outerHTML.slice(0, 120))
"""

# Lines of a box's label that leave it, by how many pixels; a wave's label stands beside it, free.
OUTSIDE = """
() => [...document.querySelectorAll('g[data-box]:not(:has(circle))')].flatMap((g) => {
  const area = g.querySelector('rect').getBBox();
  return [...g.querySelectorAll('text')].map((text) => ({ text, box: text.getBBox() }))
    .map(({ text, box }) => [text.textContent, Math.max(area.x + 2 - box.x, box.x + box.width - area.x - area.width + 2)])
    .filter(([, pixels]) => pixels > 0);
})
"""


def sideways_at_rest(page):
    """What sticks out once labels have been measured and cells have taken the room that is left."""
    for _ in range(5):
        found = page.evaluate(SIDEWAYS)
        if found["page"] <= 0 and not found["out"]:
            break
        page.wait_for_timeout(200)
    return found


@pytest.fixture
def phone(sit):
    """A tab on a telephone of the given width."""
    return lambda width: sit(width=width, height=780, has_touch=True, is_mobile=True, device_scale_factor=2)


@pytest.mark.parametrize("width", [320, 390])
def test_no_view_scrolls_sideways_and_targets_are_large(phone, width):
    reader = phone(width)
    reader.go("translate")
    reader.write(SENTENCES[3])
    found = {}
    for view in VIEWS:
        reader.move(view)
        for language in LANGUAGES:
            reader.choose(language=language)
            sideways = sideways_at_rest(reader.page)
            small = reader.page.evaluate(SMALL)
            if sideways["page"] > 0 or sideways["out"] or small:
                found[view, language] = (sideways, small)
    assert not found


@pytest.mark.parametrize("steps", [100, 400])
def test_a_long_translations_cache_still_fits(phone, steps):
    """The narrowest phone, and as many bars as an answer that does not end has steps."""
    reader = phone(320)
    page = reader.go("decoding")
    page.evaluate(
        """(steps) => {
          const list = document.querySelector('ol.growth');
          const bar = [...list.children].find((item) => item.classList.contains('future'));
          while (list.children.length < steps) list.append(bar.cloneNode(true));
          list.style.setProperty('--count', steps);
        }""",
        steps,
    )
    found = sideways_at_rest(page)
    assert (found["page"], found["out"]) == (0, [])
    assert page.locator("ol.growth").evaluate("e => e.scrollWidth <= e.clientWidth + 1")


def test_what_scrolls_can_be_reached_by_key(phone):
    reader = phone(320)
    reader.go("translate")
    reader.write(SENTENCES[3])
    found = {}
    for view in VIEWS:
        reader.move(view)
        sideways_at_rest(reader.page)
        found[view] = reader.page.evaluate(OUT_OF_REACH)
    page = reader.go("architecture")
    for box in page.locator("g[data-box]").all():
        box.click()
        name = box.get_attribute("data-box")
        found["architecture", name] = page.evaluate(OUT_OF_REACH)
    assert len(found) > len(VIEWS) + 10
    assert not any(found.values()), {view: out for view, out in found.items() if out}


@pytest.mark.parametrize("width", [320, 390, 768])
def test_every_label_of_the_figure_stays_in_its_box(phone, width):
    reader = phone(width)
    reader.go("architecture")
    found = {}
    for language in LANGUAGES:
        reader.choose(language=language)
        assert reader.page.locator("g[data-box] text").count() > 10
        found[language] = reader.page.evaluate(OUTSIDE)
    assert not any(found.values()), found


def test_text_of_twice_the_size_still_fits(phone):
    """WCAG 1.4.4, on a phone: the reader's font size is 32 pixels."""
    reader = phone(390)
    reader.go("translate")
    reader.page.evaluate("document.documentElement.style.fontSize = '200%'")
    found = {}
    for view in VIEWS:
        reader.move(view)
        sideways = sideways_at_rest(reader.page)
        if sideways["page"] > 0:
            found[view] = sideways
    assert not found


def test_pinch_zoom_is_not_taken_away(phone):
    page = phone(390).go("attention")
    content = page.locator("meta[name=viewport]").get_attribute("content")
    assert "user-scalable" not in content
    assert "maximum-scale" not in content
    assert "none" not in page.get_by_role("grid").first.evaluate("e => getComputedStyle(e).touchAction")


def test_a_tap_shows_and_pins_a_cell(phone):
    reader = phone(390)
    page = reader.go("attention", kind="cross", layer=0, head=0)
    grid = page.get_by_role("grid").first
    grid.scroll_into_view_if_needed()
    box = grid.bounding_box()
    rows, columns = (int(grid.get_attribute(f"aria-{axis}count")) for axis in ("row", "col"))
    x, y = box["x"] + box["width"] * 1.5 / columns, box["y"] + box["height"] * 2.5 / rows
    page.touchscreen.tap(x, y)
    reader.await_address(r"pin=2\.1")
    assert page.locator("[data-name=weight]").is_visible()
    page.mouse.move(5, 5)
    assert page.locator("[data-name=weight]").is_visible(), "a pinned cell stays"
    page.touchscreen.tap(x, y)
    reader.await_address(r"^(?!.*pin=)")
