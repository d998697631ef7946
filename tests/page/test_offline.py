"""1. Nothing leaves the machine, nothing breaks the content security policy, nothing fails in silence.

The fixture `sit` asserts it at the end of every test of this directory; here each view is opened for it.
"""

from __future__ import annotations

import pytest

from page.reader import VIEWS, WIDTHS


@pytest.mark.parametrize("width", WIDTHS)
def test_every_view_opens_by_its_address_without_a_word_from_elsewhere(sit, width):
    reader = sit(width=width)
    for view in VIEWS:
        page = reader.go(view)
        assert page.locator("h1").count() == 1, view
        assert page.locator("main").inner_text().strip(), view
        assert page.get_by_role("alert").count() == 0, (
            f"{view}: {page.get_by_role('alert').all_inner_texts()}"
        )
        current = page.locator("nav a[aria-current=page]")
        assert current.get_attribute("href").startswith(f"#/{view}"), "the address names another view"


def test_a_saved_page_works_from_disk(sit, tmp_path):
    """One file, opened by file://, in a browser without any network: the same numbers."""
    reader = sit()
    page = reader.go("attention", kind="cross", layer=1, head=2)
    before = page.locator("main [role=gridcell]").all_inner_texts()
    with page.expect_download() as waiting:
        page.locator("footer button").click()
    saved = tmp_path / "saved.html"
    waiting.value.save_as(saved)
    again = sit()
    again.context.set_offline(True)
    again.page.goto(f"{saved.as_uri()}{page.url[page.url.index('#') :]}")
    again.settle()
    assert again.page.locator("main [role=gridcell]").all_inner_texts() == before
    assert again.page.get_by_role("alert").count() == 0
    text = saved.read_text(encoding="utf-8")
    assert 'src="./' not in text
    assert 'href="./assets' not in text


def test_the_page_asks_for_nothing_that_a_server_could_log_the_sentence_from(sit):
    """The source text is never in an address."""
    reader = sit()
    asked: list[str] = []
    reader.page.on("request", lambda request: asked.append(request.url))
    reader.go("translate")
    reader.write("Zwölf Boxkämpfer jagen Viktor")
    for view in VIEWS:
        reader.move(view)
    assert len(asked) > 5
    assert not [url for url in asked if "Viktor" in url or "Boxk" in url]
    assert "Viktor" not in reader.page.url
