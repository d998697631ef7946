"""2. axe finds nothing serious or critical: every view, three languages, two themes, two widths."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

from page.reader import LANGUAGES, THEMES, VIEWS, WIDTHS

ALL = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
# What a theme can change: the same elements, names and roles were judged in the theme before.
COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
GRAVE = ("serious", "critical")


def findings(page, rules=ALL) -> list[str]:
    """Rule, element and advice of each grave finding."""
    options = {"runOnly": rules, "resultTypes": ["violations"]}
    return [
        f"{found['id']}: {node['html'][:160]} ({node['failureSummary'][:200]})"
        for found in Axe().run(page, options=options).response["violations"]
        if found["impact"] in GRAVE
        for node in found["nodes"]
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_grave_on_any_view(sit, width):
    reader = sit(width=width)
    reader.go("translate")
    found = {}
    for view in VIEWS:
        reader.move(view)
        for language in LANGUAGES:
            for theme in THEMES:
                reader.choose(language=language, theme=theme)
                if grave := findings(reader.page, ALL if theme == THEMES[0] else COLOURS):
                    found[view, language, theme] = grave
    assert not found


@pytest.mark.parametrize("theme", THEMES)
def test_nothing_grave_while_a_cell_is_pinned_a_table_open_or_an_error_shown(sit, theme):
    reader = sit(allow=("413",))
    page = reader.go("attention")
    reader.choose(theme=theme)
    page.get_by_role("grid").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("[role=gridcell][aria-selected=true]").count() >= 1
    page.locator("button[aria-pressed=false]", has_text="table").first.click()
    assert findings(page) == []
    page.locator("header details summary").click()
    assert findings(page) == []
    reader.write("word " * 500)
    assert page.get_by_role("alert").count() == 1
    assert findings(page) == []
