"""3. The page without a mouse: every control in order, always visible, no trap; grids, sliders, menus."""

from __future__ import annotations

from itertools import pairwise

import pytest

from page.reader import VIEWS, WIDTHS

# What a person sees of where the focus is: an outline, or a border or shadow that the element has only then.
FOCUSED = """
() => {
  const element = document.activeElement;
  element.wasReached = true;
  const seen = element.matches('input[type=radio], input[type=checkbox]') && element.nextElementSibling &&
    getComputedStyle(element).opacity === '0' ? element.nextElementSibling : element;
  const style = getComputedStyle(seen);
  const box = element.getBoundingClientRect();
  const name = element.getAttribute('aria-label') || element.labels?.[0]?.textContent || element.textContent || element.title;
  return {
    tag: element.tagName, role: element.getAttribute('role'), name: (name ?? '').trim().slice(0, 60),
    outline: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1.5,
    onScreen: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
    top: Math.round(box.top + scrollY), left: Math.round(box.left), visible: element.checkVisibility(),
    isBody: element === document.body,
  };
}
"""
MISSED = """
() => [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')]
  .filter((e) => e.tabIndex >= 0 && !e.disabled && e.checkVisibility({ visibilityProperty: true }))
  .filter((e) => e.type !== 'radio' || e.checked || !document.querySelector(`input[name="${e.name}"]:checked`))
  .filter((e) => !e.wasReached).map((e) => e.outerHTML.slice(0, 120))
"""


def walk(page, key="Tab"):
    """Where each press of Tab leads, until it has left the page."""
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0) }")
    stops = []
    for _ in range(400):
        page.keyboard.press(key)
        stop = page.evaluate(FOCUSED)
        if stop["isBody"]:
            return stops
        stops.append(stop)
    raise AssertionError(f"a trap: {stops[-3:]}")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", WIDTHS)
def test_tab_reaches_every_control_and_shows_where_it_is(sit, view, width):
    reader = sit(width=width)
    page = reader.go(view)
    stops = walk(page)
    assert page.evaluate(MISSED) == []
    assert [stop for stop in stops if not stop["name"]] == [], "a control without a name"
    assert [stop for stop in stops if not stop["visible"]] == [], "focus on what is not there"
    assert [stop for stop in stops if not stop["onScreen"]] == [], "focus out of sight"
    assert [stop for stop in stops if not stop["outline"]] == [], "focus that nobody sees"


@pytest.mark.parametrize("view", VIEWS)
def test_tab_goes_in_the_order_of_reading(sit, view):
    """Downwards; upwards only to the top of a column further right."""
    reader = sit(width=390)
    stops = walk(reader.go(view))
    jumps = [
        (a["name"], b["name"])
        for a, b in pairwise(stops)
        if b["top"] < a["top"] - 300 and b["left"] < a["left"] + 40
    ]
    assert jumps == []


def test_the_first_stop_skips_to_the_content(reader):
    page = reader.go("attention")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.tagName") == "H1"


def test_arrows_move_in_the_grid_and_enter_pins(reader):
    page = reader.go("attention", kind="cross", layer=0, head=0)
    grid = page.get_by_role("grid").first
    grid.focus()
    rows, columns = (int(grid.get_attribute(f"aria-{axis}count")) for axis in ("row", "col"))

    def at():
        cell = page.locator(f"[id='{grid.get_attribute('aria-activedescendant')}']")
        row = cell.locator("xpath=..").get_attribute("aria-rowindex")
        return int(row), int(cell.get_attribute("aria-colindex"))

    moves = [
        ("ArrowRight", (1, 2)),
        ("ArrowDown", (2, 2)),
        ("ArrowLeft", (2, 1)),
        ("ArrowLeft", (2, 1)),
        ("End", (2, columns)),
        ("Home", (2, 1)),
        ("Control+End", (rows, columns)),
        ("PageUp", (max(1, rows - 10), columns)),
        ("Control+Home", (1, 1)),
        ("ArrowUp", (1, 1)),
    ]
    for key, place in moves:
        page.keyboard.press(key)
        assert at() == place, key
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    reader.await_address(r"pin=1\.0")
    assert page.locator("[role=gridcell][aria-selected=true]").count() == 1
    page.keyboard.press("Escape")
    reader.await_address(r"^(?!.*pin=)")
    assert page.locator("[role=gridcell][aria-selected=true]").count() == 0


def test_sliders_switches_and_heads_obey_the_keys(reader):
    page = reader.go("attention", kind="dec_self", layer=0, head=0)
    slider = page.get_by_role("slider").first
    slider.focus()
    before = float(slider.input_value())
    page.keyboard.press("ArrowLeft")
    assert float(slider.input_value()) < before
    page.keyboard.press("Home")
    assert float(slider.input_value()) == 0.2
    switch = page.get_by_role("checkbox").first
    switch.focus()
    was = switch.is_checked()
    page.keyboard.press("Space")
    assert switch.is_checked() is not was
    page.locator("[data-head='0-0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.head") == "1-1"
    reader.await_address(r"head=1.*layer=1")


@pytest.mark.parametrize("width", WIDTHS)
def test_escape_closes_the_menu_and_gives_the_focus_back(sit, width):
    page = sit(width=width).go("translate")
    if width < 800:
        menu = page.locator("header button[aria-expanded]")
        menu.focus()
        page.keyboard.press("Enter")
        assert menu.get_attribute("aria-expanded") == "true"
        page.keyboard.press("Tab")
        page.keyboard.press("Escape")
        assert menu.get_attribute("aria-expanded") == "false"
        assert menu.evaluate("e => e === document.activeElement")
    else:
        settings = page.locator("header details")
        settings.locator("summary").focus()
        page.keyboard.press("Enter")
        assert settings.evaluate("e => e.open")
        page.keyboard.press("Tab")
        page.keyboard.press("Escape")
        assert not settings.evaluate("e => e.open")
        assert settings.locator("summary").evaluate("e => e === document.activeElement")
